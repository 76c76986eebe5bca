#include "text/readers/gguf_end_tokens.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>

#include "text/readers/gguf_vocabulary.h"

namespace ballast::text {
namespace {

constexpr std::array<std::string_view, 2> kMessageEnds = {"<|eom_id|>", "<|eom|>"};

// Names of control tokens that end a turn or a text in every model that has them.
constexpr std::array<std::string_view, 28> kEnds = {"<|eot_id|>",
                                                    "<|eot|>",
                                                    "<|im_end|>",
                                                    "<|end|>",
                                                    "<|return|>",
                                                    "<|call|>",
                                                    "<|flush|>",
                                                    "<|calls|>",
                                                    "<end_of_turn>",
                                                    "<turn|>",
                                                    "<|endoftext|>",
                                                    "<|end_of_text|>",
                                                    "<|endofturn|>",
                                                    "[|endofturn|]",
                                                    "<|end_of_turn|>",
                                                    "<|END_OF_TURN_TOKEN|>",
                                                    "<end_of_utterance>",
                                                    "<|end_of_sentence|>",
                                                    "<\uFF5Cend\u2581of\u2581sentence\uFF5C>",
                                                    "<|eos|>",
                                                    "<eos>",
                                                    "</s>",
                                                    "<EOT>",
                                                    "_<EOT>",
                                                    "[EOT]",
                                                    "[EOS]",
                                                    "<|eom_id|>",
                                                    "<|eom|>"};

// In OpenAI's format an answer has several messages: this token ends each message, another one the answer.
constexpr std::string_view kHarmonyMessageEnd = "<|end|>";
constexpr std::string_view kHarmonyAnswerEnd = "<|return|>";

// Returns the tokens whose names are known to end a text.
std::vector<int> ends_by_name(const files::GgufFile& file, const GgufTexts& texts) {
  const std::vector<GgufTokenType> types = read_token_types(file, texts);
  std::vector<int> ends;
  std::optional<int> message_end;
  bool harmony = false;
  for (std::size_t id = 0; id < texts.size(); ++id) {
    if (types[id] != GgufTokenType::kControl && types[id] != GgufTokenType::kUserDefined) continue;
    const std::string& text = texts[id].string();
    if (std::ranges::find(kEnds, text) != kEnds.end()) ends.push_back(static_cast<int>(id));
    if (text == kHarmonyMessageEnd) message_end = static_cast<int>(id);
    harmony = harmony || text == kHarmonyAnswerEnd;
  }
  if (harmony && message_end) std::erase(ends, *message_end);
  return ends;
}

}  // namespace

bool ends_message(std::string_view token) {
  return std::ranges::find(kMessageEnds, token) != kMessageEnds.end();
}

std::vector<int> gguf_end_tokens(const files::GgufFile& file) {
  const GgufValue tokens(file, "tokenizer.ggml.tokens");
  if (tokens.absent()) return {};
  const GgufTexts texts = tokens->elements();
  std::vector<int> ends;
  const auto add = [&](int id) {
    if (std::ranges::find(ends, id) == ends.end()) ends.push_back(id);
  };
  for (const char* key :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    if (const std::optional<std::size_t> id = named_token_id(file, texts, key)) add(static_cast<int>(*id));
  }
  for (const int id : ends_by_name(file, texts)) add(id);
  return ends;
}

}  // namespace ballast::text
