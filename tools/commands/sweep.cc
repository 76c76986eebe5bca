#include "ballast/sweep.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ballast/error.h"
#include "ballast/inspect.h"
#include "ballast/ranks.h"
#include "ballast/report.h"
#include "ballast/text.h"
#include "tools/commands/commands.h"
#include "tools/commands/job.h"
#include "tools/commands/ranked_job.h"
#include "tools/flags/option_checks.h"
#include "tools/flags/sweep_recipes.h"
#include "tools/hub/hub_model.h"
#include "tools/terminal/console.h"
#include "tools/terminal/table.h"
#include "tools/terminal/units.h"

namespace ballast::tools {
namespace {

namespace fs = std::filesystem;

struct SweepFlags {
  fs::path model;
  fs::path output;
  SweepRecipeFlags recipes;
  SweepOptions options;
  std::optional<fs::path> peers;
  bool bench = true;
  bool json = false;
  JobFlags job;
};

std::string speed_cell(const SweepRow& row, const std::string& test) {
  const auto it = std::ranges::find(row.benchmark->results, test, &BenchmarkResult::test);
  return it == row.benchmark->results.end() ? std::string() : format_fixed(it->tokens_per_second, 1);
}

std::string sweep_table(const Sweep& sweep) {
  using enum Table::Align;
  std::vector<Table::Column> columns = {{"recipe"},
                                        {"MB", kRight},
                                        {"bits/weight", kRight},
                                        {"perplexity", kRight},
                                        {"KL", kRight},
                                        {"same top token", kRight}};
  std::vector<std::string> tests;
  for (const SweepRow& row : sweep.rows) {
    if (!row.benchmark || !tests.empty()) continue;
    for (const BenchmarkResult& result : row.benchmark->results) tests.push_back(result.test);
  }
  for (const std::string& test : tests) columns.push_back({test, kRight});
  Table table(columns);
  for (const SweepRow& row : sweep.rows) {
    std::vector<std::string> cells = {row.name};
    if (const auto& evaluation = row.evaluation) {
      cells.insert(cells.end(), {format_fixed(static_cast<double>(evaluation->file_bytes) / 1e6, 1),
                                 format_fixed(evaluation->bits_per_weight, 2), format_fixed(evaluation->ppl, 3),
                                 format_figure(evaluation->kl_mean.value_or(0)),
                                 format_percent(evaluation->top1_agreement.value_or(0))});
    } else {
      cells.emplace_back("failed");
    }
    cells.resize(columns.size() - tests.size());
    for (const std::string& test : tests) cells.push_back(row.benchmark ? speed_cell(row, test) : std::string());
    table.add_row(std::move(cells));
  }
  return table.text();
}

void tell_failures(const Sweep& sweep) {
  const auto failed = [](const SweepRow& row) { return !row.error.empty(); };
  const auto count = std::ranges::count_if(sweep.rows, failed);
  if (count == 0) return;
  const SweepRow& first = *std::ranges::find_if(sweep.rows, failed);
  const std::string others = count == 1 ? "" : " (and " + std::to_string(count - 1) + " more, see the page)";
  throw Error(first.name + " failed", first.error + others);
}

int sweep_on(Ranks& ranks, const SweepFlags& flags) {
  // Checks that cost nothing come first.
  const std::vector<SweepPeer> peers = flags.peers ? read_peers(*flags.peers) : std::vector<SweepPeer>();
  SweepOptions options = flags.options;
  const Preset& preset = preset_by_name(flags.recipes.preset);
  options.recipes = sweep_recipes(flags.recipes);
  if (options.recipes.empty()) options.recipes = default_sweep_recipes(inspect(flags.model).parameters, preset);
  // The number of samples of a conversion without statistics, so that both give the same model.
  options.calibration.samples = preset.samples;
  options.calibration.length = preset.length;
  if (!flags.bench) options.benchmark.reset();
  options.ranks = &ranks;
  const Sweep result = [&] {
    Job job(flags_of_rank(flags.job, ranks));
    options.compute = compute_options(flags.job);
    return sweep(flags.model, flags.output, options, job.progress());
  }();
  if (!ranks.first()) return kExitDone;
  save_sweep(result, flags.output, peers);
  print(flags.json ? sweep_json(result) + "\n"
                   : sweep_table(result) + "\nAs a page: " + (flags.output / "index.html").string() + "\n");
  tell_failures(result);
  return kExitDone;
}

int run_sweep(const SweepFlags& flags) {
  if (launched_ranks() > 1 && flags.bench) {
    throw UsageError("speed is measured by one process: give --no-bench, or start it without mpirun");
  }
  return run_on_ranks([&](Ranks& ranks) { return sweep_on(ranks, flags); });
}

}  // namespace

void add_sweep(CLI::App& program, Action& action) {
  auto flags = std::make_shared<SweepFlags>();
  SweepOptions& options = flags->options;
  CLI::App* command = program.add_subcommand("sweep", "Convert by many recipes and compare accuracy, size and speed");
  command->add_option("MODEL", flags->model, kModelHelp)->required()->type_name("");
  command->add_option("--text", options.text_file, "Text to score, UTF-8")->required()->type_name("FILE");
  command
      ->add_option("-o,--output", flags->output, "Directory for table, page and progress; results in it are used again")
      ->required()
      ->type_name("DIR");
  add_sweep_recipe_flags(*command, flags->recipes);
  CLI::Option* statistics =
      command->add_option("--stats", options.statistics, "Statistics of calibrate [one calibration for all recipes]")
          ->type_name("STATS");
  command
      ->add_option("--calibration-text", options.calibration.text_files,
                   "Text to calibrate on; repeatable [sampled from the model]")
      ->type_name("FILE")
      ->allow_extra_args(false)
      ->excludes(statistics);
  command->add_option("--context", options.context, "Tokens per chunk; the second half of each is scored")
      ->type_name("N")
      ->capture_default_str()
      ->check(whole_number(4));
  command->add_option("--chunks", options.chunks, "At most this many chunks; 0: all of the text")
      ->type_name("N")
      ->capture_default_str()
      ->check(whole_number(0));
  command->add_flag("--bench,!--no-bench", flags->bench, "Measure speed, too (pp512 and tg128)");
  command
      ->add_option(
          "--peers", flags->peers,
          "Other programs' figures for the page: columns name, file_mb, kl, and optionally program, pp512, tg128")
      ->type_name("FILE.csv");
  command->add_flag("--keep-models", options.keep_models, "Keep the converted models in DIR/models");
  command->add_flag("--json", flags->json, "Print one JSON object");
  add_processor_flags(*command, flags->job);
  add_bf16_flag(*command, flags->job);
  add_quiet_flag(*command, flags->job);
  command->footer(
      "Stopped, it continues when started again; with another recipe it measures only that one.\n\n"
      "Example:\n"
      "  ballast sweep SmolLM2-135M --text wiki.txt --chunks 24 --schemes w8a8,w4a8@92MB --sizes 92MB,105MB -o sweep\n"
      "  mpirun -n 4 ballast sweep SmolLM2-135M --text wiki.txt --no-bench -o sweep");
  command->callback([flags, &action] { action = with_local_models(flags, run_sweep); });
}

}  // namespace ballast::tools
