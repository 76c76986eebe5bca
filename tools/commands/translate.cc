#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ballast/model.h"
#include "ballast/translate.h"
#include "files/atomic_output.h"
#include "files/text_file.h"
#include "kernels/clock.h"
#include "tools/commands/commands.h"
#include "tools/commands/job.h"
#include "tools/flags/cache_flags.h"
#include "tools/flags/model_flags.h"
#include "tools/flags/option_checks.h"
#include "tools/hub/hub_model.h"
#include "tools/terminal/console.h"
#include "tools/terminal/units.h"

namespace ballast::tools {
namespace {

/// Values that flags have set: the others are the model's.
struct SearchFlags {
  std::optional<std::size_t> beams;
  std::optional<double> length_penalty;
  std::optional<TranslateOptions::EarlyStop> early_stop;
  std::optional<std::size_t> no_repeat_ngram;
  std::optional<double> repetition_penalty;
  std::optional<std::size_t> min_tokens;
  std::optional<std::size_t> max_tokens;
};

struct TranslateFlags {
  std::filesystem::path model;
  std::filesystem::path text;
  std::filesystem::path output;
  TranslateOptions options;  ///< those without a value of the model
  SearchFlags search;
  bool generation_config = true;
  ModelFlags model_flags;
  bool json = false;
  bool force = false;
  JobFlags job;
};

TranslateOptions translate_options(const TranslateFlags& flags, const Model& model) {
  TranslateOptions options = model.translate_defaults();
  options.source_language = flags.options.source_language;
  options.target_language = flags.options.target_language;
  options.hypotheses = flags.options.hypotheses;
  options.texts_at_once = flags.options.texts_at_once;
  options.cache_type = flags.options.cache_type;
  const auto set = [](const auto& value, auto& option) { option = value.value_or(option); };
  set(flags.search.beams, options.beams);
  set(flags.search.length_penalty, options.length_penalty);
  set(flags.search.early_stop, options.early_stop);
  set(flags.search.no_repeat_ngram, options.no_repeat_ngram);
  set(flags.search.repetition_penalty, options.repetition_penalty);
  set(flags.search.min_tokens, options.min_tokens);
  set(flags.search.max_tokens, options.max_tokens);
  if (!flags.search.beams) options.beams = std::max(options.beams, options.hypotheses);
  return options;
}

/// Returns a text as one line.
std::string as_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

nlohmann::ordered_json json_of(const Translation& translation) {
  nlohmann::ordered_json texts = nlohmann::ordered_json::array();
  for (const WrittenText& text : translation.texts) {
    texts.push_back({{"text", text.text}, {"score", text.score}, {"tokens", text.tokens.size()}});
  }
  return {{"texts", texts}, {"source_tokens", translation.source_tokens}};
}

std::string json_line(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string json_lines(std::span<const Translation> translations) {
  std::string lines;
  for (const Translation& translation : translations) lines += json_line(json_of(translation));
  return lines;
}

/// Returns a line for each text; those of one source text follow each other.
std::string lines_of(std::span<const Translation> translations) {
  std::string lines;
  for (const Translation& translation : translations) {
    for (const WrittenText& text : translation.texts) lines += as_line(text.text) + "\n";
  }
  return lines;
}

struct Totals {
  std::size_t source_tokens = 0;
  std::size_t tokens = 0;  ///< of the best texts
  double seconds = 0;
};

std::string json_object(std::span<const Translation> translations, const Totals& totals,
                        const std::filesystem::path& output) {
  nlohmann::ordered_json object = {{"source_tokens", totals.source_tokens},
                                   {"tokens", totals.tokens},
                                   {"seconds", totals.seconds},
                                   {"tokens_per_second", static_cast<double>(totals.tokens) / totals.seconds}};
  if (output.empty()) {
    object["translations"] = nlohmann::ordered_json::array();
    for (const Translation& translation : translations) object["translations"].push_back(json_of(translation));
  } else {
    object["output"] = output.string();
  }
  return json_line(object);
}

/// Translates lines; an empty line stays empty.
std::vector<Translation> translate_lines(const Model& model, std::span<const std::string> lines,
                                         const TranslateOptions& options, const Progress& progress) {
  std::vector<std::string> texts;
  std::ranges::copy_if(lines, std::back_inserter(texts), [](const std::string& line) { return !line.empty(); });
  std::vector<Translation> translated = model.translate(texts, options, progress);
  std::vector<Translation> all;
  auto next = translated.begin();
  for (const std::string& line : lines) {
    if (line.empty()) {
      all.push_back({.texts = {WrittenText{}}, .source_tokens = 0});
    } else {
      all.push_back(std::move(*next++));
    }
  }
  return all;
}

int run_translate(const TranslateFlags& flags) {
  const bool is_json = flags.output.extension() == ".jsonl";
  if (!flags.output.empty() && !is_json && flags.output.extension() != ".txt") {
    throw UsageError("-o must end in .txt or .jsonl");
  }
  if (!flags.output.empty()) files::check_output(flags.output, flags.force);
  const std::vector<std::string> lines = files::read_text_lines(flags.text);
  Job job(flags.job);
  const Progress progress = job.progress();
  ModelOptions model_settings = model_options(flags.model_flags, compute_options(flags.job), flags.job.quiet);
  model_settings.generation_config = flags.generation_config;
  const Model model(flags.model, model_settings);
  const kernels::Clock::time_point start = kernels::Clock::now();
  const std::vector<Translation> translations =
      translate_lines(model, lines, translate_options(flags, model), progress);
  Totals totals{.seconds = kernels::seconds_since(start)};
  for (const Translation& translation : translations) {
    totals.source_tokens += translation.source_tokens;
    totals.tokens += translation.texts.front().tokens.size();
  }
  if (!flags.output.empty()) {
    files::write_file_atomically(flags.output, is_json ? json_lines(translations) : lines_of(translations),
                                 flags.force);
  }
  if (flags.json) {
    print(json_object(translations, totals, flags.output));
  } else if (flags.output.empty()) {
    print(lines_of(translations));
  }
  if (!flags.job.quiet) {
    print_message(std::to_string(lines.size()) + " texts, " + std::to_string(totals.tokens) + " tokens in " +
                  format_duration(totals.seconds) + ", " +
                  format_fixed(static_cast<double>(totals.tokens) / totals.seconds, 1) + " tokens/s\n");
  }
  return kExitDone;
}

void add_search_flags(CLI::App& command, SearchFlags& search) {
  command.add_option("--beam", search.beams, "Texts that are pursued at once; 1: always the most likely token")
      ->option_text("N [the model's, or 1]")
      ->check(whole_number(1, 256));
  command
      .add_option("--length-penalty", search.length_penalty,
                  "The sum of a text's log-probabilities is divided by this power of its length")
      ->option_text("X [the model's, or 1]")
      ->check(real_number([](double) { return true; }, "a number"));
  static const std::map<std::string, TranslateOptions::EarlyStop> stops = {
      {"no", TranslateOptions::EarlyStop::kNo},
      {"yes", TranslateOptions::EarlyStop::kYes},
      {"never", TranslateOptions::EarlyStop::kNever}};
  command
      .add_option_function<std::string>(
          "--early-stop", [&search](const std::string& name) { search.early_stop = stops.at(name); },
          "End a search when as many texts as beams are complete: yes; when the beams are worse: no; when no length "
          "can make them better: never")
      ->option_text("HOW [the model's, or no]")
      ->check(one_of({"no", "yes", "never"}));
  command.add_option("--no-repeat-ngram", search.no_repeat_ngram, "Write no sequence of N tokens twice; 0: no limit")
      ->option_text("N [the model's, or 0]")
      ->check(whole_number(0));
  command
      .add_option("--repetition-penalty", search.repetition_penalty, "Above 1: tokens of the text become less likely")
      ->option_text("X [the model's, or 1]")
      ->check(real_number([](double value) { return value >= 0.01 && value <= 100; }, "from 0.01 to 100"));
  command.add_option("--min-tokens", search.min_tokens, "Write at least N tokens")
      ->option_text("N [the model's, or 0]")
      ->check(whole_number(0));
  command.add_option("--max-tokens", search.max_tokens, "Write at most N tokens")
      ->option_text("N [the model's, or the context]")
      ->check(whole_number(1));
}

}  // namespace

void add_translate(CLI::App& program, Action& action) {
  auto flags = std::make_shared<TranslateFlags>();
  CLI::App* command = program.add_subcommand("translate", "Write a text from each line, with an encoder and a decoder");
  command->add_option("MODEL", flags->model, kModelHelp)->required()->type_name("");
  command->add_option("--text", flags->text, "UTF-8 file with one source text per line")->required()->type_name("FILE");
  command->add_option("-o,--output", flags->output, "NAME.txt, or NAME.jsonl with scores [standard output]")
      ->type_name("FILE");
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->add_flag("--force", flags->force, "Replace the output");
  add_language_flags(*command, flags->options.source_language, flags->options.target_language);
  add_search_flags(*command, flags->search);
  command->add_option("--hypotheses", flags->options.hypotheses, "Print N texts for each, the best first")
      ->type_name("N")
      ->capture_default_str()
      ->check(whole_number(1, 256));
  command->add_option("--texts-at-once", flags->options.texts_at_once, "Texts that run as one batch")
      ->type_name("N")
      ->capture_default_str()
      ->check(whole_number(1));
  add_generation_config_flag(*command, flags->generation_config, "the search");
  add_cache_type_flag(*command, flags->options.cache_type);
  add_model_flags(*command, flags->model_flags);
  add_processor_flags(*command, flags->job);
  add_bf16_flag(*command, flags->job);
  add_quiet_flag(*command, flags->job);
  command->footer("Example:\n  ballast translate opus-mt-en-de --text lines.txt --beam 4");
  command->callback([flags, &action] { action = with_local_models(flags, run_translate); });
}

}  // namespace ballast::tools
