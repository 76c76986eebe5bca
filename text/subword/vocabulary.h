// The tokens of a vocabulary and their ids, as files give them.
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

/// Ids above this are taken for damage: the largest vocabularies have 2.6e5.
inline constexpr int kMaxTokenId = 1 << 24;

/// U+2581, what SentencePiece writes for a space.
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

/// A token's id. Throws Error when it is negative or absurd.
int read_token_id(const files::JsonReader& node);

/// The token ids in a field of a model's config.json, "eos_token_id" and the like: one, a list, or none. Left out is
/// -1, which older configurations write for none. Throws Error for anything else.
std::vector<int> read_token_ids(const files::JsonReader& config, std::string_view field);

/// Throws Error when `ids` different ids go up to `size` - 1 with more holes than padding explains.
void check_dense(const files::JsonReader& node, std::size_t ids, std::size_t size);

/// A JSON object of texts and ids. Throws Error when two tokens have one id, and for ids that cannot be.
std::shared_ptr<const TokenTable> read_vocabulary(const files::JsonReader& vocab);

/// The byte that `text` ("<0x0A>") names.
std::optional<unsigned char> byte_of_token(std::string_view text);

/// "<0x0A>" for 10.
std::string byte_token(unsigned char byte);

/// The byte tokens among `texts`. Nothing when there is none.
std::optional<ByteTokens> find_byte_tokens(const TokenTable& texts);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_SUBWORD_VOCABULARY_H_
