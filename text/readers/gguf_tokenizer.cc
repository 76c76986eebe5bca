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
#include "text/readers/gguf_unigram.h"
#include "text/readers/gguf_vocabulary.h"
#include "text/readers/gguf_word_piece.h"
#include "text/readers/tokenizer_json_parts.h"
#include "text/subword/token_table.h"
#include "text/subword/vocabulary.h"

namespace ballast::text {
namespace {

using nlohmann::json;

struct Tokens {
  json vocab = json::object();
  json added = json::array();
};

// Reads the tokens, and lists those with the text of another one in `config`.
Tokens read_tokens(const files::GgufFile& file, const GgufTexts& texts, json& config) {
  using enum GgufTokenType;
  const std::vector<GgufTokenType> types = read_token_types(file, texts);
  GgufVocab vocab;
  for (std::size_t id = 0; id < texts.size(); ++id) {
    if (types[id] != kUnused) vocab.add(valid_text(texts[id]), id, types[id]);
  }
  vocab.note_repeated(config);
  Tokens tokens;
  for (std::size_t id = 0; id < texts.size(); ++id) {
    if (!is_found_in_text(types[id]) || !vocab.has(id)) continue;
    tokens.added.push_back(added_token(id, texts[id].string(), types[id] != kUserDefined));
  }
  tokens.vocab = vocab.ids();
  return tokens;
}

json read_merges(const files::GgufFile& file) {
  const GgufValue merges(file, "tokenizer.ggml.merges");
  for (const files::JsonReader& merge : merges->elements()) valid_text(merge);
  return merges->json();
}

PreTokenizerFamily read_family(const files::GgufFile& file) {
  const GgufValue name(file, "tokenizer.ggml.pre");
  const std::string pre = name.absent() ? "default" : name->string();
  std::optional<PreTokenizerFamily> family = pre_tokenizer_family(pre);
  if (!family) name->fail("pre-tokenizer " + files::in_quotes(pre) + " is not supported");
  return *std::move(family);
}

// A pair of tokens that together are a third one.
struct ScoredMerge {
  double score;
  std::string_view left;
  std::string_view right;
};

// SentencePiece merges the pair whose result has the highest score; returns the equivalent list of merges.
json merges_of_scores(const files::GgufFile& file, const GgufTexts& texts, const json& vocab) {
  const GgufValue score_list = read_list_for(file, "tokenizer.ggml.scores", texts);
  const std::vector<files::JsonReader> scores = elements_for(texts, score_list);
  const auto& members = vocab.get_ref<const json::object_t&>();
  TokenTable known;
  for (const auto& [text, id] : members) known.add(text);
  const auto is_token = [&](std::string_view text) { return known.find(text).has_value(); };
  std::vector<ScoredMerge> merges;
  for (const auto& [text, id] : members) {
    if (byte_of_token(text)) continue;
    const double score = scores[id.get<std::size_t>()].number();
    for_each_pair(text, is_token,
                  [&](std::string_view left, std::string_view right) { merges.push_back({score, left, right}); });
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

json read_scored_bpe(const files::GgufFile& file, const GgufTexts& texts, json& config) {
  name_special_tokens(file, texts, config);
  Tokens tokens = read_tokens(file, texts, config);
  json frame = read_gguf_frame(file, {.bos = true}, tokens.vocab, config);
  const bool adds_space = GgufValue(file, "tokenizer.ggml.add_space_prefix").flag(true);
  json merges = merges_of_scores(file, texts, tokens.vocab);
  return byte_fallback_tokenizer_json(adds_space, config.value("unk_token", json()), std::move(tokens.vocab),
                                      std::move(merges), std::move(tokens.added), std::move(frame));
}

// Reads a BPE with a list of merges.
json merges_json(const files::GgufFile& file, PreTokenizerFamily family, const GgufTexts& texts, json& config) {
  name_special_tokens(file, texts, config);
  Tokens tokens = read_tokens(file, texts, config);
  if (family.space_marks) {
    json frame = read_gguf_frame(file, {.bos = true}, tokens.vocab, config);
    return byte_fallback_tokenizer_json(false, config.value("unk_token", json()), std::move(tokens.vocab),
                                        read_merges(file), std::move(tokens.added), std::move(frame));
  }
  json frame = read_gguf_frame(file, {.bos = family.adds_bos}, tokens.vocab, config);
  return byte_level_tokenizer_json(std::move(family), std::move(tokens.vocab), read_merges(file),
                                   std::move(tokens.added), std::move(frame));
}

json read_bpe_of_family(const files::GgufFile& file, const GgufTexts& texts, json& config) {
  return merges_json(file, read_family(file), texts, config);
}

// Gemma 4's files need not name the family.
json read_gemma4_bpe(const files::GgufFile& file, const GgufTexts& texts, json& config) {
  return merges_json(file, *pre_tokenizer_family("gemma4"), texts, config);
}

std::string read_template(const files::GgufFile& file, const std::string& key) {
  const GgufValue source(file, key);
  if (source.absent()) return {};
  if (!files::is_utf8(source->string())) source->fail("is not UTF-8");
  return source->string();
}

/// A value of tokenizer.ggml.model.
struct Kind {
  std::string_view name;
  json (*read)(const files::GgufFile& file, const GgufTexts& texts, json& config);
};
constexpr Kind kKinds[] = {{"gpt2", read_bpe_of_family},
                           {"llama", read_scored_bpe},
                           {"gemma4", read_gemma4_bpe},
                           {"t5", read_gguf_unigram},
                           {"bert", read_gguf_word_piece}};

}  // namespace

std::optional<TokenizerSource> read_gguf_tokenizer(const files::GgufFile& file) {
  const GgufValue model(file, "tokenizer.ggml.model");
  if (model.absent()) return std::nullopt;
  const Kind* kind = std::ranges::find(kKinds, model->string(), &Kind::name);
  if (kind == std::end(kKinds)) {
    model->fail("tokenizer " + files::in_quotes(model->string()) +
                " is not supported; BPE (\"gpt2\", \"gemma4\"), SentencePiece's BPE (\"llama\") and Unigram (\"t5\"), "
                "and WordPiece (\"bert\") are");
  }
  const GgufValue tokens(file, "tokenizer.ggml.tokens");
  const GgufTexts texts = tokens->elements();
  json config = plain_tokenizer_config();
  const json tokenizer = kind->read(file, texts, config);

  TokenizerSource source;
  source.tokenizer_file = file.path().string();
  source.config_file = source.tokenizer_file;
  source.chat_template = read_template(file, "tokenizer.chat_template");
  source.tool_chat_template = read_template(file, "tokenizer.chat_template.tool_use");
  if (!source.tool_chat_template.empty()) {
    config["chat_template"] = {{{"name", "default"}, {"template", source.chat_template}},
                               {{"name", "tool_use"}, {"template", source.tool_chat_template}}};
  }
  source.tokenizer_data = tokenizer.dump() + "\n";
  source.config = std::move(config);
  return source;
}

}  // namespace ballast::text
