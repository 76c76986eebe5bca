#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/classify.h"
#include "ballast/error.h"
#include "ballast/model.h"
#include "ballast/text.h"
#include "files/atomic_output.h"
#include "files/text_file.h"
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

constexpr char kBetweenTexts = '\t';

struct ClassifyFlags {
  std::filesystem::path model;
  std::filesystem::path text;
  std::filesystem::path output;
  ClassifyOptions options;
  ModelFlags model_flags;
  bool json = false;
  bool force = false;
  JobFlags job;
};

std::string dumped(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Splits lines with a tab into pairs; empty if none has one. Throws Error for a file in which only some lines have.
std::vector<TextPair> read_pairs(const std::filesystem::path& path, std::span<const std::string> lines) {
  std::vector<TextPair> pairs;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::size_t tab = lines[i].find(kBetweenTexts);
    if (tab == std::string::npos && pairs.empty()) continue;
    if (pairs.size() < i || tab == std::string::npos || lines[i].find(kBetweenTexts, tab + 1) != std::string::npos) {
      throw Error(path.string() + ": line " + std::to_string(i + 1),
                  "all lines of pairs must have two texts with one tab between them, other lines none");
    }
    pairs.push_back({.first = lines[i].substr(0, tab), .second = lines[i].substr(tab + 1)});
  }
  return pairs;
}

struct Best {
  std::string label;
  float score = 0;
};

Best best_of(std::span<const float> scores, std::span<const std::string> labels) {
  const auto index = static_cast<std::size_t>(std::ranges::max_element(scores) - scores.begin());
  return {.label = labels[index], .score = scores[index]};
}

nlohmann::ordered_json json_of(std::span<const float> scores, std::span<const std::string> labels) {
  const Best best = best_of(scores, labels);
  return {{"label", best.label}, {"score", best.score}, {"scores", scores}};
}

nlohmann::ordered_json json_of(const TextScores& text, std::span<const std::string> labels) {
  if (text.tokens.empty() && text.scores.size() == labels.size()) return json_of(text.scores, labels);
  nlohmann::ordered_json tokens = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < text.tokens.size(); ++i) {
    nlohmann::ordered_json token = {{"token", text.tokens[i]}};
    token.update(json_of(std::span(text.scores).subspan(i * labels.size(), labels.size()), labels));
    tokens.push_back(std::move(token));
  }
  return {{"tokens", std::move(tokens)}};
}

/// Returns "label<TAB>score" of each text, or "token<TAB>label<TAB>score" of each token and an empty line after each
/// text.
std::string lines_of(const Classification& classification) {
  const std::span<const std::string> labels = classification.labels;
  std::string lines;
  for (const TextScores& text : classification.texts) {
    const bool of_tokens = text.scores.size() != labels.size() || !text.tokens.empty();
    for (std::size_t row = 0; row * labels.size() < text.scores.size(); ++row) {
      const Best best = best_of(std::span(text.scores).subspan(row * labels.size(), labels.size()), labels);
      if (of_tokens) lines += report::printable(text.tokens[row]) + kBetweenTexts;
      lines += report::printable(best.label) + kBetweenTexts + format_figure(best.score) + "\n";
    }
    if (of_tokens) lines += "\n";
  }
  return lines;
}

std::string json_lines(const Classification& classification) {
  std::string lines;
  for (const TextScores& text : classification.texts) lines += dumped(json_of(text, classification.labels)) + "\n";
  return lines;
}

std::string json_object(const Classification& classification, const std::filesystem::path& output) {
  nlohmann::ordered_json object = {
      {"labels", classification.labels}, {"tokens", classification.tokens}, {"cut", classification.cut}};
  if (output.empty()) {
    object["texts"] = nlohmann::ordered_json::array();
    for (const TextScores& text : classification.texts) {
      object["texts"].push_back(json_of(text, classification.labels));
    }
  } else {
    object["output"] = output.string();
  }
  return dumped(object) + "\n";
}

int run_classify(const ClassifyFlags& flags) {
  if (!flags.output.empty() && flags.output.extension() != ".jsonl") throw UsageError("-o must end in .jsonl");
  if (!flags.output.empty()) files::check_output(flags.output, flags.force);
  const std::vector<std::string> lines = files::read_text_lines(flags.text);
  const std::vector<TextPair> pairs = read_pairs(flags.text, lines);
  Job job(flags.job);
  const Progress progress = job.progress();
  const Model model(flags.model, model_options(flags.model_flags, compute_options(flags.job), flags.job.quiet));
  const Classification result =
      pairs.empty() ? model.classify(lines, flags.options, progress) : model.classify(pairs, flags.options, progress);
  if (!flags.output.empty()) files::write_file_atomically(flags.output, json_lines(result), flags.force);
  if (flags.json) {
    print(json_object(result, flags.output));
  } else if (flags.output.empty()) {
    print(lines_of(result));
  }
  if (result.cut > 0) {
    print_message(std::to_string(result.cut) + " of " + std::to_string(lines.size()) +
                  " texts were cut off at their end\n");
  }
  return kExitDone;
}

}  // namespace

void add_classify(CLI::App& program, Action& action) {
  auto flags = std::make_shared<ClassifyFlags>();
  CLI::App* command = program.add_subcommand("classify", "Score texts by a model's labels");
  command->add_option("MODEL", flags->model, kModelHelp)->required()->type_name("");
  command
      ->add_option("--text", flags->text,
                   "UTF-8 file with one text per line, or two with a tab between them (a query and a document)")
      ->required()
      ->type_name("FILE");
  command->add_option("-o,--output", flags->output, "NAME.jsonl with all scores [the best label on standard output]")
      ->type_name("FILE");
  command->add_flag("--raw", flags->options.raw_scores, "Scores before the sigmoid or softmax");
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->add_flag("--force", flags->force, "Replace the output");
  command->add_option("--most-tokens", flags->options.most_tokens, "Cut longer texts [the context]")
      ->type_name("N")
      ->check(whole_number(4));
  add_cache_type_flag(*command, flags->options.cache_type);
  add_model_flags(*command, flags->model_flags);
  add_processor_flags(*command, flags->job);
  add_bf16_flag(*command, flags->job);
  add_quiet_flag(*command, flags->job);
  command->footer("Example:\n  ballast classify bge-reranker-base --text pairs.tsv");
  command->callback([flags, &action] { action = with_local_models(flags, run_classify); });
}

}  // namespace ballast::tools
