#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>

#include "ballast/choices.h"
#include "ballast/embed.h"
#include "ballast/evaluate.h"
#include "ballast/ranks.h"
#include "tools/commands/commands.h"
#include "tools/commands/evaluation_text.h"
#include "tools/commands/job.h"
#include "tools/commands/ranked_job.h"
#include "tools/flags/adapter_flag.h"
#include "tools/flags/cache_flags.h"
#include "tools/flags/model_flags.h"
#include "tools/flags/option_checks.h"
#include "tools/hub/hub_model.h"
#include "tools/terminal/console.h"

namespace ballast::tools {
namespace {

// Longer lists are of no use.
constexpr std::uint64_t kMostWorst = 100'000;

struct EvalFlags {
  std::filesystem::path model;
  EvaluateOptions options;
  std::optional<std::filesystem::path> questions;
  std::string delimiter = ChoiceOptions{}.delimiter;
  std::optional<std::filesystem::path> texts;  ///< a file with one text per line, whose vectors are compared
  ModelFlags model_flags;
  bool json = false;
  JobFlags job;
};

int run_choices(const EvalFlags& flags) {
  ChoiceOptions options;
  options.questions_file = *flags.questions;
  options.reference = flags.options.reference;
  options.delimiter = flags.delimiter;
  options.cache = flags.options.cache;
  options.model = model_options(flags.model_flags, compute_options(flags.job), flags.job.quiet);
  const ChoiceEvaluation evaluation = [&] {
    Job job(flags.job);
    return evaluate_choices(flags.model, options, job.progress());
  }();
  print(flags.json ? choice_evaluation_json(evaluation) + "\n" : choice_sheet(evaluation));
  return kExitDone;
}

int run_vectors(const EvalFlags& flags) {
  if (!flags.options.reference) throw UsageError("--vectors needs a model to compare with: --reference MODEL");
  const VectorComparison comparison = [&] {
    Job job(flags.job);
    const VectorOptions options{.text_file = *flags.texts,
                                .reference = *flags.options.reference,
                                .embed = {.cache_type = flags.options.cache.type},
                                .model = model_options(flags.model_flags, compute_options(flags.job), flags.job.quiet)};
    return compare_vectors(flags.model, options, job.progress());
  }();
  print(flags.json ? vector_comparison_json(comparison) + "\n" : vector_sheet(comparison));
  return kExitDone;
}

int evaluate_on(Ranks& ranks, const EvalFlags& flags) {
  const JobFlags job_flags = flags_of_rank(flags.job, ranks);
  const Evaluation evaluation = [&] {
    Job job(job_flags);
    EvaluateOptions options = flags.options;
    options.model = model_options(flags.model_flags, compute_options(job_flags), job_flags.quiet);
    options.ranks = &ranks;
    return evaluate(flags.model, options, job.progress());
  }();
  if (ranks.first()) print(flags.json ? evaluation_json(evaluation) + "\n" : evaluation_sheet(evaluation));
  return kExitDone;
}

int run_eval(const EvalFlags& flags) {
  if (launched_ranks() > 1 && (flags.questions || flags.texts || flags.options.stream > 0)) {
    throw UsageError("ranks share the chunks of a text; --choices, --vectors and --stream run as one process");
  }
  if (flags.questions) return run_choices(flags);
  if (flags.texts) return run_vectors(flags);
  if (flags.options.text_file.empty()) {
    throw UsageError("give a file to score: --text FILE, --choices FILE or --vectors FILE");
  }
  return run_on_ranks([&](Ranks& ranks) { return evaluate_on(ranks, flags); });
}

/// `of_texts`: options of scoring a text, which the other tasks exclude.
void add_other_tasks(CLI::App& command, EvalFlags& flags, std::initializer_list<CLI::Option*> of_texts) {
  CLI::Option* choices =
      command
          .add_option("--choices", flags.questions,
                      "Multiple choice instead of a text: lines {\"question\": ..., \"choices\": [...], \"answer\": 0}")
          ->type_name("FILE.jsonl");
  for (CLI::Option* option : of_texts) choices->excludes(option);
  command.add_option("--delimiter", flags.delimiter, "Text between question and choice; default a space")
      ->type_name("TEXT")
      ->needs(choices);
  CLI::Option* vectors =
      command
          .add_option("--vectors", flags.texts,
                      "Compare the vectors of the texts in the lines of FILE with the reference's instead")
          ->type_name("FILE")
          ->excludes(choices);
  for (CLI::Option* option : of_texts) vectors->excludes(option);
}

}  // namespace

void add_eval(CLI::App& program, Action& action) {
  auto flags = std::make_shared<EvalFlags>();
  EvaluateOptions& options = flags->options;
  CLI::App* command = program.add_subcommand("eval", "Measure perplexity, and divergence from another model");
  command->add_option("MODEL", flags->model, kModelHelp)->required()->type_name("");
  CLI::Option* text = command->add_option("--text", options.text_file, "Text to score, UTF-8")->type_name("FILE");
  CLI::Option* reference =
      command->add_option("--reference", options.reference, "Model to compare with, usually the original")
          ->type_name("MODEL");
  CLI::Option* context =
      command->add_option("--context", options.context, "Tokens per chunk; the second half of each is scored")
          ->type_name("N")
          ->capture_default_str()
          ->check(whole_number(4));
  CLI::Option* chunks = command->add_option("--chunks", options.chunks, "At most this many chunks; 0: all of the text")
                            ->type_name("N")
                            ->capture_default_str()
                            ->check(whole_number(0));
  CLI::Option* stream =
      command->add_option("--stream", options.stream, "Score the first N tokens as one sequence instead of chunks")
          ->type_name("N")
          ->check(whole_number(2))
          ->excludes(context)
          ->excludes(chunks);
  CLI::Option* reference_cache =
      command
          ->add_option("--reference-cache", options.reference_cache,
                       "Store the reference's logits here, for other models on the same chunks")
          ->type_name("DIR")
          ->needs(reference)
          ->excludes(stream);
  CLI::Option* per_position =
      command->add_flag("--per-position", options.per_position, "Print figures by position in the chunk");
  CLI::Option* worst =
      command->add_option("--worst", options.worst, "List the N positions that diverge most from the reference")
          ->type_name("N")
          ->check(whole_number(1, kMostWorst))
          ->needs(reference);
  CLI::Option* adapter = add_adapter_flag(*command, options.adapter);
  add_other_tasks(*command, *flags, {text, adapter, context, chunks, stream, reference_cache, per_position, worst});
  add_cache_flags(*command, options.cache);
  add_model_flags(*command, flags->model_flags);
  command->add_flag("--json", flags->json, "Print one JSON object");
  add_processor_flags(*command, flags->job);
  add_bf16_flag(*command, flags->job);
  add_quiet_flag(*command, flags->job);
  command->footer(
      "Examples:\n"
      "  ballast eval smollm2-w8a8 --text wiki.txt --reference SmolLM2-135M --chunks 24\n"
      "  mpirun -n 4 ballast eval smollm2-w8a8 --text wiki.txt --reference SmolLM2-135M\n"
      "  ballast eval smollm2-w8a8 --text wiki.txt --stream 50000 --window 1020 --sinks 4\n"
      "  ballast eval smollm2-w8a8 --reference SmolLM2-135M --choices questions.jsonl\n"
      "  ballast eval minilm-w8a8 --reference all-MiniLM-L6-v2 --vectors sentences.txt");
  command->callback([flags, &action] { action = with_local_models(flags, run_eval, {&flags->options.reference}); });
}

}  // namespace ballast::tools
