// What a tokenizer is made from.
#ifndef BALLAST_TEXT_READERS_TOKENIZER_SOURCE_H_
#define BALLAST_TEXT_READERS_TOKENIZER_SOURCE_H_

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace ballast::text {

/// Other forms (a GGUF's metadata, vocab.txt) are brought into this one first.
struct TokenizerSource {
  std::string tokenizer_file;                        ///< names `tokenizer_data` in messages
  std::string tokenizer_data;                        ///< text of tokenizer.json, or bytes of tokenizer.model
  std::string config_file;                           ///< names `config` in messages
  nlohmann::json config = nlohmann::json::object();  ///< tokenizer_config.json
  std::string chat_template;                         ///< empty: the one in `config`, if any
  std::string tool_chat_template{};                  ///< empty: the one in `config`, if any
  std::optional<int> bos;                            ///< where `config` names none
  std::optional<int> eos;
  nlohmann::json special_tokens{};      ///< filled in: Tokenizer::special_tokens()
  std::vector<std::string> warnings{};  ///< what a user must be told, a line each
};

/// A field of tokenizer_config.json that only ballast writes: tokens of a GGUF that have the text of another one, which
/// a tokenizer.json cannot say. {"ID": {"same_as": ID of the one that texts become, "special": whether it is special}}
inline constexpr const char* kRepeatedTokensField = "repeated_tokens";

}  // namespace ballast::text

#endif  // BALLAST_TEXT_READERS_TOKENIZER_SOURCE_H_
