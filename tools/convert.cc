#include "ballast/convert.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "report/text.h"
#include "tools/commands.h"
#include "tools/console.h"
#include "tools/job.h"
#include "tools/recipe_flags.h"
#include "tools/table.h"
#include "tools/units.h"

namespace ballast::tools {
namespace {

struct ConvertFlags {
  std::filesystem::path model;
  std::filesystem::path output;
  RecipeFlags recipe;
  std::optional<std::filesystem::path> statistics;
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
  return page + table.text() + "\n" + flags.output.string() + ": " + format_bytes(report.bytes_before) + " became " +
         format_bytes(report.bytes_after) + ", " + format_fixed(report.bits_per_weight, 2) + " bits per weight\n";
}

int run_convert(const ConvertFlags& flags) {
  const ConvertOptions options{
      .recipe = recipe_from_flags(flags.recipe), .statistics = flags.statistics, .replace = flags.force};
  const ConvertReport report = [&] {
    Job job(flags.job);
    return convert(flags.model, flags.output, options, job.progress());
  }();
  print(flags.json ? convert_report_json(report) + "\n" : conversion_page(flags, report));
  return kExitDone;
}

}  // namespace

void add_convert(CLI::App& program, Action& action) {
  auto flags = std::make_shared<ConvertFlags>();
  CLI::App* command = program.add_subcommand("convert", "Quantize a model");
  command->add_option("MODEL", flags->model, kModelHelp)->required()->type_name("");
  command->add_option("-o,--output", flags->output, "Directory to write")->required()->type_name("OUT_DIR");
  add_recipe_flags(*command, flags->recipe);
  command->add_option("--stats", flags->statistics, "What calibrate measured [a short calibration runs first]")
      ->type_name("STATS");
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->add_flag("--force", flags->force, "Replace an existing directory, once the new one is complete");
  add_threads_flag(*command, flags->job);
  add_quiet_flag(*command, flags->job);
  command->footer(
      "FORMAT is f32, f16, bf16, or like int8-g64, int4-g32-asym, int8-channel.\n\n"
      "Example:\n"
      "  ballast convert SmolLM2-135M -o smollm2-w4a16 --scheme w4a16 --stats smollm2.stats \\\n"
      "      --group-size 32 --asymmetric --format 'layers\\.0\\..*down_proj=int8-g64'");
  command->callback([flags, &action] { action = [flags] { return run_convert(*flags); }; });
}

}  // namespace ballast::tools
