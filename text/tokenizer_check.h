// Checks whether a tokenizer belongs to a model.
#ifndef BALLAST_TEXT_TOKENIZER_CHECK_H_
#define BALLAST_TEXT_TOKENIZER_CHECK_H_

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "text/tokenizer.h"

namespace ballast::text {

/// The error if text is needed and load_tokenizer found nothing.
inline constexpr const char* kNoTokenizer =
    "has no tokenizer.json or another file of a tokenizer, which this command needs to read text";

/// Throws Error naming `context` if the tokenizer has ids beyond the embedding's `rows` that are not added tokens, if
/// the model's configuration has an id of a begin or end token that the tokenizer does not have, or if a text does not
/// survive encoding and decoding: byte-level BPE must return the same text; others may change case or spaces, but the
/// result must keep its ids.
void check_tokenizer(const Tokenizer& tokenizer, std::size_t rows, const nlohmann::json& model_config,
                     const std::string& context);

/// Runs only the first of these checks.
void check_embedding_rows(const Tokenizer& tokenizer, std::size_t rows, const std::string& context);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_TOKENIZER_CHECK_H_
