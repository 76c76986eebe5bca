#include "text/readers/gguf_tokenizer.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "ballast/error.h"
#include "files/json_reader.h"
#include "files/text.h"
#include "files/utf8.h"
#include "text/pipeline/pre_tokenizer_families.h"
#include "text/readers/tokenizer_json_parts.h"
#include "text/subword/token_table.h"
#include "text/subword/vocabulary.h"

namespace ballast::text {
namespace {

using nlohmann::json;

// Values of tokenizer.ggml.token_type (llama.cpp's llama_token_type).
enum TokenType : std::int64_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5 };

// A metadata value that stays alive as long as the checked view of it.
class Metadata {
 public:
  Metadata(const files::GgufFile& file, const std::string& key)
      : value_(file.metadata(key)), checked_(value_, file.path().string() + ": " + key) {}
  Metadata(const Metadata&) = delete;
  Metadata& operator=(const Metadata&) = delete;

  bool absent() const { return value_.is_null(); }
  const files::JsonReader* operator->() const { return &checked_; }
  const files::JsonReader& operator*() const { return checked_; }

 private:
  json value_;
  files::JsonReader checked_;
};

// GGUF does not promise UTF-8, JSON needs it.
const std::string& valid_text(const files::JsonReader& element) {
  const std::string& text = element.string();
  if (!files::is_utf8(text)) element.fail("is not UTF-8: " + files::in_quotes(text));
  return text;
}

struct Tokens {
  json vocab = json::object();
  json added = json::array();
};

// tokenizer.ggml.tokens
using Texts = std::vector<files::JsonReader>;

// A list with an element for each token.
std::vector<files::JsonReader> elements_for(const Texts& texts, const Metadata& list) {
  std::vector<files::JsonReader> elements = list->elements();
  if (elements.size() != texts.size()) {
    list->fail(files::concat("has ", elements.size(), " elements for ", texts.size(), " tokens"));
  }
  return elements;
}

Tokens read_tokens(const files::GgufFile& file, const Texts& texts) {
  const Metadata type_list(file, "tokenizer.ggml.token_type");
  const std::vector<files::JsonReader> types =
      type_list.absent() ? std::vector<files::JsonReader>() : elements_for(texts, type_list);
  Tokens tokens;
  for (std::size_t id = 0; id < texts.size(); ++id) {
    const std::string& text = valid_text(texts[id]);
    const std::int64_t type = types.empty() ? kNormal : types[id].integer();
    // Fills the vocabulary up to the number of the embedding's rows.
    if (type == kUnused) continue;
    if (!tokens.vocab.emplace(text, id).second) {
      texts[id].fail("token " + files::in_quotes(text) + " is there twice, with ids " + tokens.vocab[text].dump() +
                     " and " + std::to_string(id));
    }
    if (type == kControl || type == kUserDefined || type == kUnknown) {
      tokens.added.push_back(added_token(id, text, type != kUserDefined));
    }
  }
  return tokens;
}

json read_merges(const files::GgufFile& file) {
  const Metadata merges(file, "tokenizer.ggml.merges");
  for (const files::JsonReader& merge : merges->elements()) valid_text(merge);
  return merges->json();
}

PreTokenizerFamily read_family(const files::GgufFile& file) {
  const Metadata name(file, "tokenizer.ggml.pre");
  const std::string pre = name.absent() ? "default" : name->string();
  std::optional<PreTokenizerFamily> family = pre_tokenizer_family(pre);
  if (!family) name->fail("pre-tokenizer " + files::in_quotes(pre) + " is not supported");
  return *std::move(family);
}

// The text of the token that `key` names by id; nothing when the file has no such key.
std::optional<std::string> named_token(const files::GgufFile& file, const Texts& texts, const std::string& key) {
  const Metadata id(file, key);
  if (id.absent()) return std::nullopt;
  const auto index = static_cast<std::size_t>(read_token_id(*id));
  if (index >= texts.size()) id->fail(files::concat("is ", index, ", there are ", texts.size(), " tokens"));
  return valid_text(texts[index]);
}

json read_config(const files::GgufFile& file, const Texts& texts) {
  json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
  constexpr std::array<std::pair<const char*, const char*>, 4> kNames{
      {{"bos_token", "tokenizer.ggml.bos_token_id"},
       {"eos_token", "tokenizer.ggml.eos_token_id"},
       {"unk_token", "tokenizer.ggml.unknown_token_id"},
       {"pad_token", "tokenizer.ggml.padding_token_id"}}};
  for (const auto& [name, key] : kNames) {
    if (const std::optional<std::string> token = named_token(file, texts, key)) config[name] = *token;
  }
  return config;
}

// What puts BOS before a text and EOS after it, as the file or else the kind of tokenizer wants it. The
// configuration gets the same answer.
json read_frame(const files::GgufFile& file, bool adds_bos_by_default, const json& vocab, json& config) {
  using Token = std::vector<std::pair<std::string, json>>;
  const auto token = [&](const char* key, const char* name, const char* config_key, bool otherwise) -> Token {
    const Metadata wanted(file, key);
    const bool adds =
        (wanted.absent() ? otherwise : wanted->boolean()) && config.contains(name) && vocab.contains(config[name]);
    config[config_key] = adds;
    return adds ? Token{{config[name], vocab.at(config[name])}} : Token{};
  };
  const Token bos = token("tokenizer.ggml.add_bos_token", "bos_token", "add_bos_token", adds_bos_by_default);
  const Token eos = token("tokenizer.ggml.add_eos_token", "eos_token", "add_eos_token", false);
  return bos.empty() && eos.empty() ? json(nullptr) : frame_template(bos, eos);
}

// A pair of tokens that together are a third one.
struct ScoredMerge {
  double score;
  std::string_view left;
  std::string_view right;
};

// SentencePiece merges the pair whose result has the highest score; written as a list that says the same.
json merges_of_scores(const files::GgufFile& file, const Texts& texts, const json& vocab) {
  const Metadata score_list(file, "tokenizer.ggml.scores");
  const std::vector<files::JsonReader> scores = elements_for(texts, score_list);
  const auto& members = vocab.get_ref<const json::object_t&>();
  TokenTable known;
  for (const auto& [text, id] : members) known.add(text);
  std::vector<ScoredMerge> merges;
  for (const auto& [text, id] : members) {
    if (byte_of_token(text)) continue;
    const double score = scores[id.get<std::size_t>()].number();
    for (std::size_t cut = 1; cut < text.size(); ++cut) {
      if (files::continues_code_point(text[cut])) continue;
      const std::string_view left = std::string_view(text).substr(0, cut);
      const std::string_view right = std::string_view(text).substr(cut);
      if (known.find(left) && known.find(right)) merges.push_back({score, left, right});
    }
  }
  std::ranges::sort(merges, [](const ScoredMerge& a, const ScoredMerge& b) {
    if (a.score != b.score) return a.score > b.score;
    if (a.left.size() != b.left.size()) return a.left.size() > b.left.size();
    return std::tie(a.left, a.right) < std::tie(b.left, b.right);
  });
  json list = json::array();
  for (const ScoredMerge& merge : merges) list.push_back(json::array({merge.left, merge.right}));
  return list;
}

json sentencepiece_json(const files::GgufFile& file, const Texts& texts, json& config) {
  Tokens tokens = read_tokens(file, texts);
  json frame = read_frame(file, true, tokens.vocab, config);
  const Metadata adds_space(file, "tokenizer.ggml.add_space_prefix");
  json merges = merges_of_scores(file, texts, tokens.vocab);
  return byte_fallback_tokenizer_json(adds_space.absent() || adds_space->boolean(), config.value("unk_token", json()),
                                      std::move(tokens.vocab), std::move(merges), std::move(tokens.added),
                                      std::move(frame));
}

// A BPE with a list of merges: "gpt2", and "gemma4", whose files need not name the family.
json merges_json(const files::GgufFile& file, PreTokenizerFamily family, const Texts& texts, json& config) {
  Tokens tokens = read_tokens(file, texts);
  if (family.space_marks) {
    json frame = read_frame(file, true, tokens.vocab, config);
    return byte_fallback_tokenizer_json(false, config.value("unk_token", json()), std::move(tokens.vocab),
                                        read_merges(file), std::move(tokens.added), std::move(frame));
  }
  json frame = read_frame(file, family.adds_bos, tokens.vocab, config);
  return byte_level_tokenizer_json(std::move(family), std::move(tokens.vocab), read_merges(file),
                                   std::move(tokens.added), std::move(frame));
}

}  // namespace

std::optional<TokenizerSource> read_gguf_tokenizer(const files::GgufFile& file) {
  const Metadata model(file, "tokenizer.ggml.model");
  if (model.absent()) return std::nullopt;
  const bool sentencepiece = model->string() == "llama";
  const bool gemma4 = model->string() == "gemma4";
  if (!sentencepiece && !gemma4 && model->string() != "gpt2") {
    model->fail("tokenizer " + files::in_quotes(model->string()) +
                " is not supported; BPE (\"gpt2\", \"gemma4\") and SentencePiece's BPE (\"llama\") are");
  }
  const Metadata tokens(file, "tokenizer.ggml.tokens");
  const Texts texts = tokens->elements();
  if (texts.size() > kMaxTokenId) tokens->fail(std::to_string(texts.size()) + " tokens are too many");
  json config = read_config(file, texts);
  const json tokenizer =
      sentencepiece ? sentencepiece_json(file, texts, config)
                    : merges_json(file, gemma4 ? *pre_tokenizer_family("gemma4") : read_family(file), texts, config);

  TokenizerSource source;
  source.tokenizer_file = file.path().string();
  source.config_file = source.tokenizer_file;
  const Metadata chat_template(file, "tokenizer.chat_template");
  if (!chat_template.absent()) {
    source.chat_template = chat_template->string();
    if (!files::is_utf8(source.chat_template)) chat_template->fail("is not UTF-8");
  }
  source.tokenizer_data = tokenizer.dump() + "\n";
  source.config = std::move(config);
  return source;
}

}  // namespace ballast::text
