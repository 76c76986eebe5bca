// The input from which a tokenizer is created.
#ifndef BALLAST_TEXT_READERS_TOKENIZER_SOURCE_H_
#define BALLAST_TEXT_READERS_TOKENIZER_SOURCE_H_

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace ballast::text {

inline constexpr const char* kTokenizerJson = "tokenizer.json";

/// Other formats (a GGUF's metadata, vocab.txt) are converted to this one first.
struct TokenizerSource {
  std::string tokenizer_file;                        ///< names `tokenizer_data` in messages
  std::string tokenizer_data;                        ///< text of tokenizer.json, or bytes of tokenizer.model
  std::string config_file;                           ///< names `config` in messages
  nlohmann::json config = nlohmann::json::object();  ///< tokenizer_config.json
  std::string chat_template;                         ///< empty: the one in `config`, if any
  std::string tool_chat_template{};                  ///< empty: the one in `config`, if any
  std::optional<int> bos;                            ///< used if `config` names none
  std::optional<int> eos;
  nlohmann::json special_tokens{};      ///< set by the reader: Tokenizer::special_tokens()
  std::vector<std::string> warnings{};  ///< one line each, for the user
  /// Files beside `tokenizer_data` that the tokenizer consists of, as they were read.
  std::vector<TokenizerFile> other_files{};
};

/// A field of tokenizer_config.json that only ballast writes: tokens of a GGUF with the text of another one, which a
/// tokenizer.json cannot express. {"ID": {"same_as": ID of the one that texts become, "special": whether it is
/// special}}
inline constexpr const char* kRepeatedTokensField = "repeated_tokens";

}  // namespace ballast::text

#endif  // BALLAST_TEXT_READERS_TOKENIZER_SOURCE_H_
