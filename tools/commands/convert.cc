#include "ballast/convert.h"

#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ballast/explain.h"
#include "ballast/inspect.h"
#include "ballast/text.h"
#include "tools/commands/commands.h"
#include "tools/commands/conversion_page.h"
#include "tools/commands/group_rows.h"
#include "tools/commands/job.h"
#include "tools/commands/plan_line.h"
#include "tools/commands/ranked_job.h"
#include "tools/flags/option_checks.h"
#include "tools/flags/recipe_flags.h"
#include "tools/hub/hub_model.h"
#include "tools/terminal/console.h"
#include "tools/terminal/table.h"
#include "tools/terminal/units.h"

namespace ballast::tools {
namespace {

struct ConvertFlags {
  std::filesystem::path model;
  std::optional<std::filesystem::path> output;
  std::string to = "ballast";
  RecipeFlags recipe;
  std::optional<std::filesystem::path> statistics;
  std::string preset = "balanced";
  bool preset_given = false;
  std::vector<std::filesystem::path> text_files;
  std::optional<std::size_t> samples;
  std::optional<double> target_bits;
  bool deterministic = false;
  bool explain = false;
  bool dry_run = false;
  bool force = false;
  bool json = false;
  bool verbose = false;
  JobFlags job;
};

// Returns the target of a fold, without the block's path if it is the same as the folded part's.
std::string target_of(const FoldLine& line) {
  const std::size_t block = line.what.find("*.");
  if (block == std::string::npos) return line.into;
  const std::string path = line.what.substr(0, block + 2);
  std::string target = line.into;
  for (std::size_t at = target.find(path); at != std::string::npos; at = target.find(path)) {
    target.erase(at, path.size());
  }
  return target;
}

std::string explanation_page(const std::vector<FoldLine>& lines) {
  Table table({{"bias, gain or transformation"}, {"is"}, {"because"}});
  for (const FoldLine& line : lines) {
    const std::string outcome = fold_outcome_name(line.outcome) + (line.into.empty() ? "" : " into " + target_of(line));
    table.add_row({line.what, outcome, line.reason});
  }
  return table.text();
}

Recipe recipe_of(const ConvertFlags& flags) {
  if (!flags.target_bits) return recipe_from_flags(flags.recipe);
  RecipeFlags sized = flags.recipe;
  const double bytes = *flags.target_bits * static_cast<double>(inspect(flags.model).parameters) / 8;
  constexpr double kMost = 1e15;
  if (!(bytes >= 1 && bytes <= kMost)) throw UsageError("--target-bpw: the size that it means is out of range");
  sized.target_size = std::to_string(std::floor(bytes));
  return recipe_from_flags(sized);
}

int run_explain(const ConvertFlags& flags) {
  check_output_format(flags.recipe, parse_output_format(flags.to));
  const std::vector<FoldLine> lines = explain_folds(flags.model, recipe_of(flags), parse_output_format(flags.to));
  print(flags.json ? fold_lines_json(lines) + "\n" : explanation_page(lines));
  return kExitDone;
}

ConvertOptions options_from_flags(const ConvertFlags& flags) {
  check_output_format(flags.recipe, parse_output_format(flags.to));
  ConvertOptions options{.recipe = recipe_of(flags),
                         .output_format = parse_output_format(flags.to),
                         .statistics = flags.statistics,
                         .deterministic = flags.deterministic,
                         .replace = flags.force};
  const Recipe::Rounding asked = options.recipe.rounding;
  apply_preset(preset_by_name(flags.preset), options);
  // The preset's rounding applies only if the preset was named and no rounding.
  if (!flags.preset_given || flags.recipe.rounding) options.recipe.rounding = asked;
  options.calibration.text_files = flags.text_files;
  if (flags.samples) options.calibration.samples = *flags.samples;
  return options;
}

std::string range_text(std::uint64_t least, std::uint64_t most) {
  return least == most ? text::format_bytes(most) : text::format_bytes(least) + " to " + text::format_bytes(most);
}

std::string plan_page(const ConvertPlan& plan, bool verbose) {
  std::vector<GroupRow> all;
  for (const ConvertPlan::Group& group : plan.groups) {
    all.push_back({.name = group.name,
                   .format = group.format,
                   .tensors = group.tensors,
                   .weights = group.weights,
                   .bytes_before = group.bytes_before,
                   .least_bytes = group.least_bytes,
                   .most_bytes = group.most_bytes});
  }
  const std::vector<GroupRow> shown = verbose ? all : condensed(all);
  using enum Table::Align;
  Table table({{"tensors"}, {"format"}, {"count", kRight}, {"before", kRight}, {"after", kRight}});
  for (const GroupRow& row : shown) {
    table.add_row({report::printable(row.name), row.format_text(), report::count(row.tensors),
                   text::format_bytes(row.bytes_before), range_text(row.least_bytes, row.most_bytes)});
  }
  return table.text() + left_out_text(shown.size(), all.size()) + "\n" + text::format_bytes(plan.bytes_before) +
         " would become " + range_text(plan.least_bytes, plan.most_bytes) +
         (plan.calibrates ? "; a calibration comes first\n" : "\n");
}

int run_dry(const ConvertFlags& flags) {
  const Job job(flags.job);
  ConvertOptions options = options_from_flags(flags);
  options.calibration.compute = compute_options(flags.job);
  const ConvertPlan plan = plan_conversion(flags.model, options);
  if (plan.job && !flags.job.quiet) print_message(plan_line("conversion", *plan.job, single_rank()));
  print(flags.json ? convert_plan_json(plan) + "\n" : plan_page(plan, flags.verbose));
  return kExitDone;
}

int convert_on(Ranks& ranks, const ConvertFlags& flags) {
  ConvertOptions options = options_from_flags(flags);
  options.calibration.ranks = &ranks;
  options.calibration.on_message = [](const std::string& message) { print_message("ballast: " + message + "\n"); };
  // The plan of a calibration, if there are no statistics, and of the conversion after it.
  const bool calibrates = !flags.statistics;
  std::size_t plans = 0;
  options.calibration.on_plan = [&](const JobPlan& plan) {
    const std::string job = calibrates && plans++ == 0 ? "calibration" : "conversion";
    if (!flags.job.quiet) print_message(plan_line(job, plan, ranks));
  };
  const ConvertReport report = [&] {
    Job job(flags_of_rank(flags.job, ranks));
    options.calibration.compute = compute_options(flags.job);
    return convert(flags.model, *flags.output, options, job.progress());
  }();
  if (ranks.first())
    print(flags.json ? convert_report_json(report) + "\n" : conversion_page(report, *flags.output, flags.verbose));
  return kExitDone;
}

int run_convert(const ConvertFlags& flags) {
  if (flags.explain) return run_explain(flags);
  if (flags.dry_run) return run_dry(flags);
  if (!flags.output) throw UsageError("-o OUT is missing (only --explain and --dry-run write nothing)");
  return run_on_ranks([&](Ranks& ranks) { return convert_on(ranks, flags); });
}

}  // namespace

void add_convert(CLI::App& program, Action& action) {
  auto flags = std::make_shared<ConvertFlags>();
  CLI::App* command = program.add_subcommand("convert", "Quantize a model");
  command->add_option("MODEL", flags->model, kModelHelp)->required()->type_name("");
  CLI::Option* output =
      command->add_option("-o,--output", flags->output, "Directory to write; with --to gguf a file")->type_name("OUT");
  command->add_option("--to", flags->to, "Write another program's files, rounded to its types")
      ->type_name("FORMAT")
      ->check(one_of(output_format_names()))
      ->capture_default_str();
  add_recipe_flags(*command, flags->recipe);
  command->add_option("--stats", flags->statistics, "Statistics of calibrate [a short calibration runs first]")
      ->type_name("STATS");
  std::vector<std::string> names;
  std::string costs;
  for (const Preset& preset : presets()) {
    names.push_back(preset.name);
    costs += "  " + preset.name + ": " + preset.description + "\n";
  }
  CLI::Option* preset = command->add_option("--preset", flags->preset, "Amount of work, see below")
                            ->type_name(CLI::detail::join(names, "|"))
                            ->check(one_of(names))
                            ->capture_default_str();
  command->add_option("--text", flags->text_files, "Text to calibrate with, UTF-8; repeatable [sampled from the model]")
      ->option_text("FILE")
      ->allow_extra_args(false)
      ->excludes("--stats");
  command->add_option("--samples", flags->samples, "Pieces of text that run through the model [the preset's]")
      ->type_name("N")
      ->check(whole_number(1));
  command->add_option("--target-bpw", flags->target_bits, "The same as bits per weight")
      ->type_name("BITS")
      ->check(CLI::PositiveNumber.description(""))
      ->excludes("--target-size");
  command->add_flag("--deterministic", flags->deterministic, "The same bytes for any number of ranks (mpirun)");
  command
      ->add_flag("--explain", flags->explain, "Print what would happen to every bias and gain, and why; write nothing")
      ->excludes(output);
  command->add_flag("--dry-run", flags->dry_run, "Print the expected formats, size, time and memory; write nothing")
      ->excludes("--explain");
  add_page_flags(*command, flags->json, flags->verbose);
  command->add_flag("--force", flags->force, "Replace an existing output, once the new one is complete");
  add_processor_flags(*command, flags->job);
  add_bf16_flag(*command, flags->job);
  add_quiet_flag(*command, flags->job);
  command->footer(
      "Presets:\n" + costs +
      "\nFORMAT is f32, f16, bf16, or like int8-g64, int4-g32-asym, int6-channel, int5-g128-s8, nl4-g64-s8;\n"
      "with --to gguf also a type of llama.cpp's, like q4_k.\n\n"
      "Example:\n"
      "  ballast convert SmolLM2-135M -o smollm2-w4a16 --scheme w4a16 --stats smollm2.stats \\\n"
      "      --group-size 32 --asymmetric --format 'layers\\.0\\..*down_proj=int8-g64'");
  command->callback([flags, preset, &action] {
    flags->preset_given = preset->count() > 0;
    action = with_local_models(flags, run_convert);
  });
}

}  // namespace ballast::tools
