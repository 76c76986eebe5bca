#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "ballast/convert.h"
#include "tools/commands/commands.h"
#include "tools/commands/conversion_page.h"
#include "tools/commands/job.h"
#include "tools/flags/option_checks.h"
#include "tools/hub/hub_model.h"
#include "tools/terminal/console.h"

namespace ballast::tools {
namespace {

struct ExportFlags {
  std::filesystem::path model;
  std::filesystem::path output;
  std::string to;
  bool force = false;
  bool json = false;
  bool verbose = false;
  JobFlags job;
};

int run_export(const ExportFlags& flags) {
  Job job(flags.job);
  const ConvertReport report =
      export_model(flags.model, flags.output, {.output_format = parse_output_format(flags.to), .replace = flags.force},
                   job.progress());
  print(flags.json ? convert_report_json(report) + "\n" : conversion_page(report, flags.output, flags.verbose));
  return kExitDone;
}

}  // namespace

void add_export(CLI::App& program, Action& action) {
  auto flags = std::make_shared<ExportFlags>();
  CLI::App* command =
      program.add_subcommand("export", "Write a model of ballast's for other programs, if they can hold it exactly");
  command->add_option("MODEL", flags->model, "A directory that ballast wrote")->required()->type_name("");
  command->add_option("-o,--output", flags->output, "Directory to write; with --to gguf a file")
      ->required()
      ->type_name("OUT");
  std::vector<std::string> names = output_format_names();
  std::erase(names, output_format_name(OutputFormat::kBallast));
  command->add_option("--to", flags->to, "Program whose files to write: " + CLI::detail::join(names, ", "))
      ->required()
      ->type_name("FORMAT")
      ->check(one_of(names));
  add_page_flags(*command, flags->json, flags->verbose);
  command->add_flag("--force", flags->force, "Replace an existing output, once the new one is complete");
  add_processor_flags(*command, flags->job);
  add_quiet_flag(*command, flags->job);
  command->footer(
      "Nothing is rounded. Symmetric integers go to a GGUF in 4, 5 and 8 bits, to compressed-tensors, MLX, AWQ and\n"
      "GPTQ in theirs; other formats are refused, and `ballast convert --to` rounds the original instead.\n\n"
      "Example:\n"
      "  ballast convert SmolLM2-135M -o smollm2-q4 --bits 4 --group-size 32 --symmetric --outliers none\n"
      "  ballast export smollm2-q4 --to gguf -o smollm2-q4_0.gguf");
  command->callback([flags, &action] { action = with_local_models(flags, run_export); });
}

}  // namespace ballast::tools
