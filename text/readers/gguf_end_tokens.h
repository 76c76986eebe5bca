// The tokens that end a text, from a GGUF's metadata.
#ifndef BALLAST_TEXT_READERS_GGUF_END_TOKENS_H_
#define BALLAST_TEXT_READERS_GGUF_END_TOKENS_H_

#include <string_view>
#include <vector>

#include "files/gguf/gguf.h"

namespace ballast::text {

/// Returns the ids of the tokens that end a text, eos_token_id first: those that the metadata name as the end of a
/// text, a turn (eot) or a message (eom), and control or user-defined tokens with a name that is known to end a turn.
/// Files of instruction models may name only the base model's end of text. Throws Error for an id without a token.
std::vector<int> gguf_end_tokens(const files::GgufFile& file);

/// Returns whether a token of this name ends a message in the middle of a turn: a tool call.
bool ends_message(std::string_view token);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_READERS_GGUF_END_TOKENS_H_
