// Byte-level BPE as a tokenizer.json describes it.
#ifndef BALLAST_MODEL_TOKENIZER_BPE_TOKENIZER_H_
#define BALLAST_MODEL_TOKENIZER_BPE_TOKENIZER_H_

#include <memory>
#include <optional>
#include <string>

#include "model/tokenizer/tokenizer.h"

namespace ballast::model {

/// What a tokenizer is made from. A GGUF's metadata is brought into this form first.
struct TokenizerSource {
  std::string tokenizer_file;                        ///< names `tokenizer_json` in messages
  std::string tokenizer_json;                        ///< text of tokenizer.json
  std::string config_file;                           ///< names `config` in messages
  nlohmann::json config = nlohmann::json::object();  ///< tokenizer_config.json
  std::string chat_template;                         ///< empty: the one in `config`, if any
  std::optional<int> bos;                            ///< where `config` names none
  std::optional<int> eos;
};

/// Throws Error naming file and JSON path, or the kind of model when it is not byte-level BPE.
std::unique_ptr<Tokenizer> make_tokenizer(TokenizerSource source);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_TOKENIZER_BPE_TOKENIZER_H_
