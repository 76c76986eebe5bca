// A byte-level BPE tokenizer that is small enough for tests.
#ifndef BALLAST_TESTS_SUPPORT_TINY_TOKENIZER_H_
#define BALLAST_TESTS_SUPPORT_TINY_TOKENIZER_H_

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "files/utf8.h"
#include "text/readers/json_tokenizer.h"

namespace ballast::test {

/// Returns a tokenizer.json with the 256 bytes as ids 0-255 in GPT-2's order ('!' is 0), "he" 256, "ll" 257, "hell"
/// 258, "hello" 259, " hello" 260 and the special token "<|end|>" 261.
inline nlohmann::json tiny_tokenizer_json() {
  nlohmann::json vocab = nlohmann::json::object();
  const auto is_printable = [](int c) { return (c > 32 && c < 127) || (c > 160 && c < 256 && c != 173); };
  int id = 0;
  const auto add = [&](char32_t character) {
    std::string text;
    files::append_utf8(character, text);
    vocab[text] = id++;
  };
  for (int byte = 0; byte < 256; ++byte) {
    if (is_printable(byte)) add(static_cast<char32_t>(byte));
  }
  char32_t substitute = 256;
  while (id < 256) add(substitute++);
  for (const char* token : {"he", "ll", "hell", "hello", "Ġhello"}) vocab[token] = id++;
  const nlohmann::json end = {{"id", id}, {"content", "<|end|>"}, {"special", true}, {"normalized", false}};
  return {{"added_tokens", nlohmann::json::array({end})},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
          {"post_processor", nullptr},
          {"model",
           {{"type", "BPE"},
            {"vocab", vocab},
            {"merges", nlohmann::json::array({"h e", "l l", "he ll", "hell o", "Ġ hello"})}}}};
}

inline std::unique_ptr<text::Tokenizer> make_tiny_tokenizer(const nlohmann::json& tokenizer = tiny_tokenizer_json(),
                                                            nlohmann::json config = nlohmann::json::object(),
                                                            std::string chat_template = {}) {
  text::TokenizerSource source;
  source.tokenizer_file = "tokenizer.json";
  source.tokenizer_data = tokenizer.dump();
  source.config_file = "tokenizer_config.json";
  source.config = std::move(config);
  source.chat_template = std::move(chat_template);
  return text::make_tokenizer(std::move(source));
}

}  // namespace ballast::test

#endif  // BALLAST_TESTS_SUPPORT_TINY_TOKENIZER_H_
