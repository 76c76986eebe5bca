#include <filesystem>
#include <memory>
#include <string>

#include "ballast/evaluate.h"
#include "report/text.h"
#include "tools/cache_flags.h"
#include "tools/commands.h"
#include "tools/console.h"
#include "tools/job.h"
#include "tools/option_checks.h"
#include "tools/table.h"
#include "tools/units.h"

namespace ballast::tools {
namespace {

struct EvalFlags {
  std::filesystem::path model;
  EvaluateOptions options;
  bool json = false;
  JobFlags job;
};

/// How the perplexity develops along a stream.
std::string segment_table(const Evaluation& evaluation) {
  if (evaluation.segments.empty()) return {};
  using enum Table::Align;
  Table table({{"from token", kRight}, {"tokens", kRight}, {"perplexity", kRight}});
  for (const StreamSegment& segment : evaluation.segments) {
    table.add_row({report::count(segment.first), report::count(segment.tokens), format_fixed(segment.ppl, 2)});
  }
  return "\n" + table.text();
}

std::string evaluation_sheet(const Evaluation& evaluation) {
  Table sheet({{}, {}});
  sheet.add_row({"perplexity", format_fixed(evaluation.ppl, 4) + " ± " + format_fixed(evaluation.ppl_stderr, 4)});
  if (evaluation.reference_ppl) sheet.add_row({"reference's", format_fixed(*evaluation.reference_ppl, 4)});
  if (evaluation.kl_mean) {
    std::string divergence = format_figure(*evaluation.kl_mean) + " nats per token";
    if (evaluation.kl_p99) divergence += ", 99 % below " + format_figure(*evaluation.kl_p99);
    sheet.add_row({"KL divergence", divergence});
  }
  if (evaluation.top1_agreement) sheet.add_row({"same top token", format_percent(*evaluation.top1_agreement, 2)});
  if (evaluation.segments.empty()) {
    sheet.add_row(
        {"tokens scored", report::count(evaluation.tokens) + " in " + report::count(evaluation.chunks) + " chunks"});
  } else {
    sheet.add_row({"tokens scored", report::count(evaluation.tokens) + " in one stream"});
    sheet.add_row({"cache", format_bytes(evaluation.cache_bytes)});
  }
  sheet.add_row({"tensor files", format_bytes(evaluation.file_bytes) + ", " +
                                     format_fixed(evaluation.bits_per_weight, 2) + " bits per weight"});
  sheet.add_row({"time", format_duration(evaluation.seconds)});
  return sheet.text() + segment_table(evaluation);
}

int run_eval(const EvalFlags& flags) {
  const Evaluation evaluation = [&] {
    Job job(flags.job);
    return evaluate(flags.model, flags.options, job.progress());
  }();
  print(flags.json ? evaluation_json(evaluation) + "\n" : evaluation_sheet(evaluation));
  return kExitDone;
}

}  // namespace

void add_eval(CLI::App& program, Action& action) {
  auto flags = std::make_shared<EvalFlags>();
  EvaluateOptions& options = flags->options;
  CLI::App* command = program.add_subcommand("eval", "Measure perplexity, and divergence from another model");
  command->add_option("MODEL", flags->model, kModelHelp)->required()->type_name("");
  command->add_option("--text", options.text_file, "Text to score, UTF-8")->required()->type_name("FILE");
  command->add_option("--reference", options.reference, "Model to compare with, usually the original")
      ->type_name("MODEL");
  CLI::Option* context =
      command->add_option("--context", options.context, "Tokens per chunk; the second half of each is scored")
          ->type_name("N")
          ->capture_default_str()
          ->check(whole_number(2));
  CLI::Option* chunks = command->add_option("--chunks", options.chunks, "At most this many chunks; 0: all of the text")
                            ->type_name("N")
                            ->capture_default_str()
                            ->check(whole_number(0));
  command->add_option("--stream", options.stream, "Score the first N tokens as one sequence instead of chunks")
      ->type_name("N")
      ->check(whole_number(2))
      ->excludes(context)
      ->excludes(chunks);
  add_cache_flags(*command, options.cache);
  command->add_flag("--json", flags->json, "Print one JSON object");
  add_thread_flags(*command, flags->job);
  add_quiet_flag(*command, flags->job);
  command->footer(
      "Examples:\n"
      "  ballast eval smollm2-w8a8 --text wiki.txt --reference SmolLM2-135M --chunks 24\n"
      "  ballast eval smollm2-w8a8 --text wiki.txt --stream 50000 --window 1020 --sinks 4");
  command->callback([flags, &action] { action = [flags] { return run_eval(*flags); }; });
}

}  // namespace ballast::tools
