#include "ballast/calibrate.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ballast/error.h"
#include "ballast/report.h"
#include "ballast/text.h"
#include "files/atomic_output.h"
#include "tools/commands/commands.h"
#include "tools/commands/job.h"
#include "tools/commands/plan_line.h"
#include "tools/commands/ranked_job.h"
#include "tools/flags/option_checks.h"
#include "tools/flags/prefix_flag.h"
#include "tools/hub/hub_model.h"
#include "tools/terminal/console.h"
#include "tools/terminal/table.h"
#include "tools/terminal/units.h"

namespace ballast::tools {
namespace {

namespace fs = std::filesystem;

struct CalibrateFlags {
  fs::path model;
  fs::path output;
  CalibrateOptions options;
  std::optional<std::string> prefix;
  std::optional<fs::path> report;
  bool json = false;
  bool force = false;
  JobFlags job;
};

std::string massive_line(const Statistics& statistics) {
  std::vector<std::size_t> layers;
  std::vector<std::string> channels;
  for (const LayerStatistics& layer : statistics.layers) {
    if (layer.massive) layers.push_back(layer.layer);
  }
  if (layers.empty()) return "no value is massive (above 100 and 1000 x its layer's median)";
  for (const MassiveChannel& channel : statistics.massive_channels) channels.push_back(std::to_string(channel.channel));
  return (layers.size() == 1 ? "layer " : "layers ") + report::ranges(layers) +
         (channels.size() == 1 ? ", channel " : ", channels ") + report::listed(channels, 8);
}

std::string massive_tokens_line(const Statistics& statistics) {
  std::vector<std::string> places;
  for (const MassiveToken& token : statistics.massive_tokens) {
    const std::string name = token.token == MassiveToken::kFirst
                                 ? "the first one"
                                 : report::visible(token.token_text) + " (id " + std::to_string(token.token) + ")";
    places.push_back(name + " in " + report::counted(token.samples, "sample", "samples"));
  }
  return report::listed(places, 4);
}

std::string sinks_line(const Statistics& statistics) {
  const std::vector<float>& shares = statistics.sink_share;
  const auto sinks = std::count_if(shares.begin(), shares.end(), [](float share) { return share >= kSinkShare; });
  return report::count(static_cast<std::size_t>(sinks)) + " of " + report::count(shares.size()) +
         " heads give the first token at least " + format_percent(kSinkShare, 0) + " of their attention";
}

std::string summary_sheet(const CalibrateFlags& flags, const Statistics& statistics) {
  Table sheet({{}, {}});
  sheet.add_row({"measured", report::counted(statistics.samples, "sample", "samples") + " of " +
                                 report::counted(statistics.length, "token", "tokens") + ", " +
                                 report::printable(statistics.text)});
  if (!statistics.prefix.empty()) sheet.add_row({"after the prefix", prefix_name({.tokens = statistics.prefix})});
  sheet.add_row({"massive values", massive_line(statistics)});
  if (!statistics.massive_tokens.empty()) sheet.add_row({"their tokens", massive_tokens_line(statistics)});
  sheet.add_row({"attention sinks", sinks_line(statistics)});
  sheet.add_row({"statistics", flags.output.string()});
  if (flags.report) sheet.add_row({"report", flags.report->string()});
  return sheet.text();
}

std::string layer_table(const Statistics& statistics) {
  using enum Table::Align;
  Table table({{"layer", kRight},
               {"median", kRight},
               {"largest", kRight},
               {"x median", kRight},
               {"channel", kRight},
               {"position", kRight},
               {"token"},
               {"massive"}});
  for (const LayerStatistics& layer : statistics.layers) {
    if (layer.top.empty()) continue;
    const TopValue& top = layer.top.front();
    table.add_row({std::to_string(layer.layer), report::number(layer.median), report::number(top.value),
                   layer.median > 0 ? report::number(std::abs(top.value) / layer.median) : "",
                   std::to_string(top.channel), std::to_string(top.position), report::visible(top.token_text),
                   layer.massive ? "yes" : ""});
  }
  return table.text();
}

// Lists the inputs of linears whose channels differ most in range.
std::string outlier_table(const Statistics& statistics) {
  constexpr std::size_t kShown = 5;
  std::vector<const LinearInputStatistics*> inputs;
  for (const LinearInputStatistics& input : statistics.inputs) inputs.push_back(&input);
  std::stable_sort(inputs.begin(), inputs.end(),
                   [](const auto* a, const auto* b) { return a->absmax_ratio() > b->absmax_ratio(); });
  inputs.resize(std::min(inputs.size(), kShown));

  using enum Table::Align;
  Table table({{"input of"}, {"largest / median channel", kRight}, {"outlier channels", kRight}});
  for (const LinearInputStatistics* input : inputs) {
    table.add_row({report::printable(input->linears.front()), report::number(input->absmax_ratio()),
                   report::count(input->outlier_channels().size())});
  }
  return table.text();
}

/// Lists the tokens per expert; empty for models without experts.
std::string expert_table(const Statistics& statistics) {
  if (statistics.experts.empty()) return {};
  constexpr std::size_t kShown = 6;
  using enum Table::Align;
  Table table({{"layer", kRight},
               {"experts", kRight},
               {"fewest tokens", kRight},
               {"most", kRight},
               {"entropy, bits", kRight},
               {"starved", kRight},
               {"measured on others"}});
  for (const ExpertStatistics& layer : statistics.experts) {
    const std::vector<std::size_t> starved = layer.starved();
    std::vector<std::string> numbers;
    for (const std::size_t expert : starved) numbers.push_back(std::to_string(expert));
    const auto [least, most] = std::ranges::minmax(layer.tokens);
    table.add_row({std::to_string(layer.layer), report::count(layer.tokens.size()), report::count(least),
                   report::count(most),
                   format_fixed(layer.entropy(), 2) + " of " +
                       format_fixed(std::log2(static_cast<double>(layer.tokens.size())), 2),
                   report::count(starved.size()), report::listed(numbers, kShown)});
  }
  return "\n" + table.text();
}

std::string json_with_plan(const Statistics& statistics, const JobPlan& plan) {
  auto result = nlohmann::json::parse(statistics_json(statistics));
  result["plan"] = {{"memory_bytes", plan.memory_bytes}, {"seconds", plan.seconds}};
  return result.dump() + "\n";
}

int calibrate_on(Ranks& ranks, const CalibrateFlags& flags) {
  CalibrateOptions options = flags.options;
  JobPlan plan;
  options.ranks = &ranks;
  if (flags.prefix) options.prefix = prefix_from_flag(*flags.prefix);
  options.state_folder = state_folder_beside(flags.output);
  options.on_plan = [&](const JobPlan& told) {
    plan = told;
    if (!flags.job.quiet) print_message(plan_line("calibration", plan, ranks));
  };
  options.on_message = [](const std::string& message) { print_message("ballast: " + message + "\n"); };
  const Statistics statistics = [&] {
    Job job(flags_of_rank(flags.job, ranks));
    options.compute = compute_options(flags.job);
    return calibrate(flags.model, options, job.progress());
  }();
  if (ranks.first()) {
    save_statistics(statistics, flags.output, flags.force);
    if (flags.report) save_calibration_page(statistics, *flags.report, flags.force);
    print(flags.json ? json_with_plan(statistics, plan)
                     : summary_sheet(flags, statistics) + "\n" + layer_table(statistics) + "\n" +
                           outlier_table(statistics) + expert_table(statistics));
  }
  ranks.barrier();  // the others' files may be needed until the output exists
  discard_calibration_state(options);
  return kExitDone;
}

int run_calibrate(const CalibrateFlags& flags) {
  files::check_output(flags.output, flags.force);
  if (flags.report) files::check_output(*flags.report, flags.force);
  return run_on_ranks([&](Ranks& ranks) { return calibrate_on(ranks, flags); });
}

}  // namespace

void add_calibrate(CLI::App& program, Action& action) {
  auto flags = std::make_shared<CalibrateFlags>();
  CalibrateOptions& options = flags->options;
  CLI::App* command =
      program.add_subcommand("calibrate", "Measure a model's activations: outliers, massive values, sinks");
  command->add_option("MODEL", flags->model, kModelHelp)->required()->type_name("");
  command->add_option("-o,--output", flags->output, "Statistics file to write")->required()->type_name("STATS");
  command->add_option("--text", options.text_files, "Text to run, UTF-8; repeatable [sampled from the model]")
      ->option_text("FILE")
      ->allow_extra_args(false);
  command->add_option("--samples", options.samples, "Pieces of text to run, fewer when the text is shorter")
      ->type_name("N")
      ->capture_default_str()
      ->check(whole_number(1));
  command->add_option("--length", options.length, "Tokens of each [512, or the model's context]")
      ->type_name("N")
      ->check(whole_number(2));
  command->add_option("--seed", options.seed, "Seed of the choice of samples, or of the sampling")
      ->type_name("N")
      ->capture_default_str();
  add_prefix_flag(*command, flags->prefix);
  command->add_option("--report", flags->report, "Page to draw from the statistics")->type_name("FILE.html");
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->add_flag("--force", flags->force, "Replace existing files");
  add_processor_flags(*command, flags->job);
  add_bf16_flag(*command, flags->job);
  add_quiet_flag(*command, flags->job);
  command->footer(
      "Example:\n  ballast calibrate SmolLM2-135M -o smollm2.stats --text wiki.txt --report smollm2.html\n"
      "  mpirun -n 4 ballast calibrate SmolLM2-135M -o smollm2.stats\n\n"
      "An interrupted calibration continues when the same command is given again.");
  command->callback([flags, &action] { action = with_local_models(flags, run_calibrate); });
}

}  // namespace ballast::tools
