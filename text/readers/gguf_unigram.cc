#include "text/readers/gguf_unigram.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "files/text.h"
#include "text/readers/tokenizer_json_parts.h"
#include "text/subword/vocabulary.h"
#include "text/unicode/base64.h"

namespace ballast::text {
namespace {

using nlohmann::json;

// T5's end token, which its files need not name.
constexpr std::size_t kUsualEnd = 1;

// The tokens with scores in the form of a tokenizer.json, and their properties. A token with the text of another one is
// in the list, but no text is encoded to it.
struct ScoredTokens {
  json list = json::array();
  json ids = json::object();
  json added = json::array();
  bool bytes = false;          ///< unknown characters become bytes
  bool crosses_words = false;  ///< some tokens extend over the end of a word
};

ScoredTokens read_scored_tokens(const files::GgufFile& file, const GgufTexts& texts,
                                const std::vector<GgufTokenType>& types, json& config) {
  using enum GgufTokenType;
  const GgufValue score_list = read_list_for(file, "tokenizer.ggml.scores", texts);
  const std::vector<files::JsonReader> scores = elements_for(texts, score_list);
  std::size_t count = texts.size();
  while (count > 0 && types[count - 1] == kUnused) --count;
  double least = 0;
  for (std::size_t id = 0; id < count; ++id) {
    if (types[id] == kNormal) least = std::min(least, scores[id].number());
  }
  ScoredTokens tokens;
  GgufVocab vocab;
  for (std::size_t id = 0; id < count; ++id) vocab.add(valid_text(texts[id]), id, types[id]);
  vocab.note_repeated(config);
  for (std::size_t id = 0; id < count; ++id) {
    const std::string& text = texts[id].string();
    // The scores of tokens that are not pieces of text are ignored, but the lowest one sets the cost of an unknown
    // character.
    const double score = types[id] == kNormal ? scores[id].number() : types[id] == kUnused ? least : 0.0;
    tokens.list.push_back(json::array({text, score}));
    if (is_found_in_text(types[id]) && vocab.has(id)) {
      tokens.added.push_back(added_token(id, text, types[id] != kUserDefined));
    }
    tokens.bytes = tokens.bytes || types[id] == kByte;
    const std::size_t mark = text.rfind(kSpaceMark);
    tokens.crosses_words = tokens.crosses_words || (types[id] == kNormal && mark != std::string::npos && mark > 0);
  }
  tokens.ids = vocab.ids();
  return tokens;
}

std::size_t find_unknown(const files::GgufFile& file, const GgufTexts& texts, const std::vector<GgufTokenType>& types) {
  const char* key = "tokenizer.ggml.unknown_token_id";
  if (const std::optional<std::size_t> id = named_token_id(file, texts, key)) return *id;
  const auto unknown = std::ranges::find(types, GgufTokenType::kUnknown);
  if (unknown == types.end()) GgufValue(file, key)->fail("is missing, and no token is of type 2 (unknown)");
  return static_cast<std::size_t>(unknown - types.begin());
}

// Returns the rules in base64; empty if there are none.
std::string read_charsmap(const files::GgufFile& file) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 22;  // the largest known one has 0.3 million
  const GgufValue list(file, "tokenizer.ggml.precompiled_charsmap", kMostBytes);
  if (list.absent()) return {};
  std::string bytes;
  for (const files::JsonReader& element : list->elements()) {
    bytes += static_cast<char>(element.integer<int>(INT8_MIN, UINT8_MAX) & 0xFF);  // I8 or U8
  }
  return encode_base64(bytes);
}

void refuse_setting(const files::GgufFile& file, const char* key, bool unsupported) {
  const GgufValue value(file, key);
  if (value.flag(!unsupported) == unsupported)
    value->fail(unsupported ? "true is not supported" : "false is not supported");
}

}  // namespace

json read_gguf_unigram(const files::GgufFile& file, const GgufTexts& texts, json& config) {
  refuse_setting(file, "tokenizer.ggml.treat_whitespace_as_suffix", true);
  refuse_setting(file, "tokenizer.ggml.escape_whitespaces", false);
  const std::vector<GgufTokenType> types = read_token_types(file, texts);
  ScoredTokens tokens = read_scored_tokens(file, texts, types, config);
  const std::size_t unknown = find_unknown(file, texts, types);
  name_special_tokens(file, texts, config);
  config["unk_token"] = valid_text(texts[unknown]);
  if (!config.contains("eos_token") && types.size() > kUsualEnd && types[kUsualEnd] == GgufTokenType::kControl) {
    config["eos_token"] = valid_text(texts[kUsualEnd]);
  }
  json frame = read_gguf_frame(file, {.eos = true}, tokens.ids, config);
  const SpaceRules spaces = {.prefix = GgufValue(file, "tokenizer.ggml.add_space_prefix").flag(true),
                             .merge = GgufValue(file, "tokenizer.ggml.remove_extra_whitespaces").flag(true),
                             .split = !tokens.crosses_words};
  return unigram_tokenizer_json(spaces, read_charsmap(file), unknown, tokens.bytes, std::move(tokens.list),
                                std::move(tokens.added), std::move(frame));
}

}  // namespace ballast::text
