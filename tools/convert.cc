#include "ballast/convert.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ballast/explain.h"
#include "report/text.h"
#include "tools/commands.h"
#include "tools/console.h"
#include "tools/job.h"
#include "tools/option_checks.h"
#include "tools/recipe_flags.h"
#include "tools/table.h"
#include "tools/units.h"

namespace ballast::tools {
namespace {

struct ConvertFlags {
  std::filesystem::path model;
  std::optional<std::filesystem::path> output;
  RecipeFlags recipe;
  std::optional<std::filesystem::path> statistics;
  bool explain = false;
  bool force = false;
  bool json = false;
  JobFlags job;
};

std::string conversion_page(const ConvertFlags& flags, const ConvertReport& report) {
  std::string page;
  for (const std::string& note : report.notes) page += "- " + note + "\n";
  if (!page.empty()) page += "\n";

  using enum Table::Align;
  Table table(
      {{"tensors"}, {"format"}, {"count", kRight}, {"before", kRight}, {"after", kRight}, {"bits/weight", kRight}});
  for (const TensorGroupReport& group : report.groups) {
    const double bits =
        group.weights == 0 ? 0 : 8 * static_cast<double>(group.bytes_after) / static_cast<double>(group.weights);
    table.add_row({report::printable(group.name), group.format, report::count(group.tensors),
                   format_bytes(group.bytes_before), format_bytes(group.bytes_after), format_fixed(bits, 2)});
  }
  return page + table.text() + "\n" + flags.output->string() + ": " + format_bytes(report.bytes_before) + " became " +
         format_bytes(report.bytes_after) + ", " + format_fixed(report.bits_per_weight, 2) + " bits per weight\n";
}

// Where a fold goes, without the block's path when that is the same as the folded part's.
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

int run_explain(const ConvertFlags& flags) {
  const std::vector<FoldLine> lines = explain_folds(flags.model, recipe_from_flags(flags.recipe));
  print(flags.json ? fold_lines_json(lines) + "\n" : explanation_page(lines));
  return kExitDone;
}

int run_convert(const ConvertFlags& flags) {
  if (flags.explain) return run_explain(flags);
  if (!flags.output) throw UsageError("-o OUT_DIR is missing (only --explain writes nothing)");
  const ConvertOptions options{
      .recipe = recipe_from_flags(flags.recipe), .statistics = flags.statistics, .replace = flags.force};
  const ConvertReport report = [&] {
    Job job(flags.job);
    return convert(flags.model, *flags.output, options, job.progress());
  }();
  print(flags.json ? convert_report_json(report) + "\n" : conversion_page(flags, report));
  return kExitDone;
}

}  // namespace

void add_convert(CLI::App& program, Action& action) {
  auto flags = std::make_shared<ConvertFlags>();
  CLI::App* command = program.add_subcommand("convert", "Quantize a model");
  command->add_option("MODEL", flags->model, kModelHelp)->required()->type_name("");
  CLI::Option* output = command->add_option("-o,--output", flags->output, "Directory to write")->type_name("OUT_DIR");
  add_recipe_flags(*command, flags->recipe);
  command->add_option("--stats", flags->statistics, "What calibrate measured [a short calibration runs first]")
      ->type_name("STATS");
  command
      ->add_flag("--explain", flags->explain,
                 "Write nothing; say of every bias and gain what would become of it, and why")
      ->excludes(output);
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->add_flag("--force", flags->force, "Replace an existing directory, once the new one is complete");
  add_thread_flags(*command, flags->job);
  add_quiet_flag(*command, flags->job);
  command->footer(
      "FORMAT is f32, f16, bf16, or like int8-g64, int4-g32-asym, int6-channel, int5-g128.\n\n"
      "Example:\n"
      "  ballast convert SmolLM2-135M -o smollm2-w4a16 --scheme w4a16 --stats smollm2.stats \\\n"
      "      --group-size 32 --asymmetric --format 'layers\\.0\\..*down_proj=int8-g64'");
  command->callback([flags, &action] { action = [flags] { return run_convert(*flags); }; });
}

}  // namespace ballast::tools
