#include "model/source/translate_defaults.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "files/checkpoint_hint.h"
#include "files/json_reader.h"
#include "files/strict_json.h"
#include "model/source/generation_config.h"
#include "text/subword/vocabulary.h"

namespace ballast::model {

namespace {

TranslateOptions::EarlyStop read_early_stop(const files::JsonReader& config) {
  constexpr const char* kField = "early_stopping";
  using EarlyStop = TranslateOptions::EarlyStop;
  if (!config.has(kField)) return EarlyStop::kNo;
  if (config.at(kField).json().is_boolean()) return config.flag(kField) ? EarlyStop::kYes : EarlyStop::kNo;
  if (config.text(kField) != "never") config.fail(kField, "must be true, false or \"never\"");
  return EarlyStop::kNever;
}

/// Reads a length that counts the token that begins a text, and returns it without that.
std::size_t read_length(const files::JsonReader& config, const char* field) {
  const std::size_t length = config.count(field, 0);
  return length == 0 ? 0 : length - 1;
}

/// Reads sequences of tokens that a text never contains. One of an end token alone has no effect in transformers.
std::vector<std::vector<int>> read_forbidden(const files::JsonReader& config) {
  constexpr const char* kField = "bad_words_ids";
  std::vector<std::vector<int>> sequences;
  if (!config.has(kField)) return sequences;
  const std::vector<int> ends = text::read_token_ids(config, "eos_token_id");
  for (const files::JsonReader& sequence : config.at(kField).elements()) {
    std::vector<int> ids = sequence.integers<int>(0);
    if (ids.empty()) sequence.fail("has no tokens");
    if (ids.size() == 1 && std::ranges::find(ends, ids.front()) != ends.end()) continue;
    sequences.push_back(std::move(ids));
  }
  return sequences;
}

/// Reads tokens that a text is forced to have.
std::vector<int> read_forced(const files::JsonReader& config, const char* field, std::size_t vocab_size) {
  std::vector<int> tokens = text::read_token_ids(config, field);
  for (const int token : tokens) {
    if (token < 0 || static_cast<std::size_t>(token) >= vocab_size) {
      config.fail(field, std::to_string(token) + " is not in the vocabulary of " + std::to_string(vocab_size));
    }
  }
  return tokens;
}

TranslateOptions read_fields(const files::JsonReader& config, std::size_t vocab_size) {
  TranslateOptions options;
  options.beams = config.size("num_beams", 1);
  options.length_penalty = config.number("length_penalty", 1);
  options.early_stop = read_early_stop(config);
  options.no_repeat_ngram = config.count("no_repeat_ngram_size", 0);
  options.repetition_penalty = config.positive("repetition_penalty", 1);
  options.min_tokens = std::max(read_length(config, "min_length"), config.count("min_new_tokens", 0));
  options.max_tokens = config.count("max_new_tokens", read_length(config, "max_length"));
  options.first_tokens = read_forced(config, "forced_bos_token_id", vocab_size);
  const std::vector<int> last = read_forced(config, "forced_eos_token_id", vocab_size);
  if (!last.empty()) options.last_token = last.front();
  options.forbidden_sequences = read_forbidden(config);
  options.renormalize = config.flag("renormalize_logits", false);
  return options;
}

}  // namespace

TranslateOptions read_translate_defaults(const files::Checkpoint& checkpoint, const nlohmann::json& config,
                                         std::size_t vocab_size) {
  const std::filesystem::path path = checkpoint.path() / kGenerationConfigFile;
  if (!files::is_there(path)) {
    return read_fields(files::JsonReader(config, checkpoint.path().string() + "/config.json"), vocab_size);
  }
  const nlohmann::json own = files::read_json_object(path);
  return read_fields(files::JsonReader(own, path.string()), vocab_size);
}

}  // namespace ballast::model
