// Whether a tokenizer and a model belong together.
#ifndef BALLAST_TEXT_TOKENIZER_CHECK_H_
#define BALLAST_TEXT_TOKENIZER_CHECK_H_

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "text/tokenizer.h"

namespace ballast::text {

/// What is wrong where text is to be read and load_tokenizer found nothing.
inline constexpr const char* kNoTokenizer =
    "has no tokenizer.json or another file of a tokenizer, which this command needs to read text";

/// Throws Error naming `context` when the tokenizer has other ids beyond the embedding's `rows` than added tokens, when
/// the model's configuration names a token that begins or ends a text by an id that the tokenizer does not have, and
/// when a text does not survive encoding and decoding: byte-level BPE must give back the text itself; others may change
/// case or spaces, but what they give back must keep its ids.
void check_tokenizer(const Tokenizer& tokenizer, std::size_t rows, const nlohmann::json& model_config,
                     const std::string& context);

/// The first of these checks alone.
void check_embedding_rows(const Tokenizer& tokenizer, std::size_t rows, const std::string& context);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_TOKENIZER_CHECK_H_
