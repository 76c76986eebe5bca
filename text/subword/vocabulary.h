// The tokens of a vocabulary and their ids, as stored in files.
#ifndef BALLAST_TEXT_SUBWORD_VOCABULARY_H_
#define BALLAST_TEXT_SUBWORD_VOCABULARY_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/json_reader.h"
#include "text/subword/subword_model.h"
#include "text/subword/token_table.h"

namespace ballast::text {

/// Larger ids are treated as damage: the largest vocabularies have 2.6e5.
inline constexpr int kMaxTokenId = 1 << 24;

/// U+2581, SentencePiece's mark for a space.
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

/// Reads a token's id. Throws Error if it is negative or too large.
int read_token_id(const files::JsonReader& node);

/// Reads the token ids in a field of a model's config.json, such as "eos_token_id": one, a list, or none. -1, which
/// older configurations write for none, is left out. Throws Error for anything else.
std::vector<int> read_token_ids(const files::JsonReader& config, std::string_view field);

/// Throws Error if `ids` different ids below `size` leave more gaps than padding explains.
void check_dense(const files::JsonReader& node, std::size_t ids, std::size_t size);

/// Reads a JSON object of texts and ids. Throws Error for duplicate or invalid ids.
std::shared_ptr<const TokenTable> read_vocabulary(const files::JsonReader& vocab);

/// Returns the byte that `text` ("<0x0A>") names.
std::optional<unsigned char> byte_of_token(std::string_view text);

/// Returns "<0x0A>" for 10.
std::string byte_token(unsigned char byte);

/// Finds the byte tokens in `texts`. Returns nullopt if there are none.
std::optional<ByteTokens> find_byte_tokens(const TokenTable& texts);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_SUBWORD_VOCABULARY_H_
