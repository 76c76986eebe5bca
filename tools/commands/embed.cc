#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ballast/embed.h"
#include "ballast/model.h"
#include "ballast/text.h"
#include "files/atomic_output.h"
#include "files/npy.h"
#include "files/text_file.h"
#include "tools/commands/commands.h"
#include "tools/commands/job.h"
#include "tools/flags/cache_flags.h"
#include "tools/flags/model_flags.h"
#include "tools/flags/option_checks.h"
#include "tools/hub/hub_model.h"
#include "tools/terminal/console.h"

namespace ballast::tools {
namespace {

struct EmbedFlags {
  std::filesystem::path model;
  std::filesystem::path text;
  std::filesystem::path output;
  EmbedOptions options;
  ModelFlags model_flags;
  bool sparse = false;
  bool of_tokens = false;
  bool json = false;
  bool force = false;
  JobFlags job;
};

nlohmann::json json_rows(const TextVectors& vectors) {
  nlohmann::json rows = nlohmann::json::array();
  for (std::size_t begin = 0; begin < vectors.values.size(); begin += vectors.size) {
    rows.push_back(std::span(vectors.values).subspan(begin, vectors.size));
  }
  return rows;
}

std::string json_lines(const TextVectors& vectors) {
  std::string lines;
  for (const nlohmann::json& row : json_rows(vectors)) lines += row.dump() + "\n";
  return lines;
}

/// `output` is empty if the vectors are part of the object.
std::string json_object(const TextVectors& vectors, std::size_t texts, const std::filesystem::path& output) {
  nlohmann::json object = {{"texts", texts}, {"size", vectors.size}, {"tokens", vectors.tokens}, {"cut", vectors.cut}};
  if (output.empty()) {
    object["vectors"] = json_rows(vectors);
  } else {
    object["output"] = output.string();
  }
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

/// Returns a line for each text: its words' weights by the ids of tokens, or the vectors of its tokens.
std::string token_lines(const Model& model, const std::vector<std::string>& texts, const EmbedFlags& flags,
                        const Progress& progress) {
  std::string lines;
  const auto add = [&](const nlohmann::json& line) { lines += line.dump() + "\n"; };
  if (flags.sparse) {
    for (const WordWeights& weights : model.embed_sparse(texts, flags.options, progress)) {
      nlohmann::json line = nlohmann::json::object();
      for (const auto& [token, weight] : weights) line[std::to_string(token)] = weight;
      add(line);
    }
    return lines;
  }
  const TokenVectors vectors = model.embed_tokens(texts, flags.options, progress);
  for (const std::vector<float>& text : vectors.texts) {
    nlohmann::json line = nlohmann::json::array();
    for (std::size_t begin = 0; begin < text.size(); begin += vectors.size) {
      line.push_back(std::span(text).subspan(begin, vectors.size));
    }
    add(line);
  }
  return lines;
}

/// Throws UsageError for an output with another ending than those that there are for what is computed.
void check_ending(const EmbedFlags& flags, bool of_texts) {
  const std::filesystem::path ending = flags.output.extension();
  if (flags.output.empty() || ending == ".jsonl" || (of_texts && ending == ".npy")) return;
  throw UsageError(of_texts ? "-o must end in .npy or .jsonl" : "with --sparse and --tokens, -o must end in .jsonl");
}

int run_embed(const EmbedFlags& flags) {
  const bool of_texts = !flags.sparse && !flags.of_tokens;
  check_ending(flags, of_texts);
  if (!flags.output.empty()) files::check_output(flags.output, flags.force);
  const std::vector<std::string> texts = files::read_text_lines(flags.text);
  Job job(flags.job);
  const Progress progress = job.progress();
  const Model model(flags.model, model_options(flags.model_flags, compute_options(flags.job), flags.job.quiet));
  if (!of_texts) {
    const std::string lines = token_lines(model, texts, flags, progress);
    if (flags.output.empty()) {
      print(lines);
    } else {
      files::write_file_atomically(flags.output, lines, flags.force);
    }
    return kExitDone;
  }
  const TextVectors vectors = model.embed(texts, flags.options, progress);
  if (!flags.output.empty()) {
    const bool is_array = flags.output.extension() == ".npy";
    const std::string content =
        is_array ? files::npy_text(vectors.values, texts.size(), vectors.size) : json_lines(vectors);
    files::write_file_atomically(flags.output, content, flags.force);
  }
  if (flags.json) {
    print(json_object(vectors, texts.size(), flags.output));
  } else if (flags.output.empty()) {
    print(json_lines(vectors));
  }
  if (vectors.cut > 0) {
    print_message(std::to_string(vectors.cut) + " of " + std::to_string(texts.size()) +
                  " texts were cut off at their end\n");
  }
  return kExitDone;
}

}  // namespace

void add_embed(CLI::App& program, Action& action) {
  auto flags = std::make_shared<EmbedFlags>();
  CLI::App* command = program.add_subcommand("embed", "Compute vectors of texts");
  command->add_option("MODEL", flags->model, kModelHelp)->required()->type_name("");
  command->add_option("--text", flags->text, "UTF-8 file with one text per line")->required()->type_name("FILE");
  command->add_option("-o,--output", flags->output, "NAME.npy or NAME.jsonl [JSON lines on standard output]")
      ->type_name("FILE");
  CLI::Option* json = command->add_flag("--json", flags->json, "Print one JSON object");
  command->add_flag("--force", flags->force, "Replace the output");
  static const std::map<std::string, Pooling> poolings = {
      {"mean", Pooling::kMean}, {"cls", Pooling::kFirst}, {"last", Pooling::kLast}};
  command
      ->add_option_function<std::string>(
          "--pooling", [flags](const std::string& name) { flags->options.pooling = poolings.at(name); },
          "Pooling of a text's tokens: mean, cls (the first) or last [the model's, else mean]")
      ->option_text("KIND")
      ->check(one_of({"mean", "cls", "last"}));
  command->add_option("--most-tokens", flags->options.most_tokens, "Cut longer texts [the model's limit]")
      ->type_name("N")
      ->check(whole_number(3));
  command
      ->add_option("--prompt-name", flags->options.prompt_name,
                   "Put this prompt of config_sentence_transformers.json before each text [its default]")
      ->type_name("NAME");
  command->add_option("--dimensions", flags->options.dimensions, "Keep the first N values of a vector [all]")
      ->type_name("N")
      ->check(whole_number(1));
  CLI::Option* sparse = command->add_flag("--sparse", flags->sparse, "Weights of words (bge-m3): {ID: WEIGHT}");
  command->add_flag("--tokens", flags->of_tokens, "Vectors of tokens (bge-m3)")->excludes(sparse)->excludes(json);
  sparse->excludes(json);
  add_cache_type_flag(*command, flags->options.cache_type);
  add_model_flags(*command, flags->model_flags);
  add_processor_flags(*command, flags->job);
  add_bf16_flag(*command, flags->job);
  add_quiet_flag(*command, flags->job);
  command->footer("Example:\n  ballast embed all-MiniLM-L6-v2 --text sentences.txt -o sentences.npy");
  command->callback([flags, &action] { action = with_local_models(flags, run_embed); });
}

}  // namespace ballast::tools
