// Which tokens end a text, by a GGUF's metadata.
#ifndef BALLAST_TEXT_READERS_GGUF_END_TOKENS_H_
#define BALLAST_TEXT_READERS_GGUF_END_TOKENS_H_

#include <string_view>
#include <vector>

#include "files/gguf/gguf.h"

namespace ballast::text {

/// Ids of the tokens that end a text, eos_token_id first: those that the metadata name as the end of a text, a turn
/// (eot) or a message (eom), and control or user-defined tokens whose name is known to end a turn. Files of instruction
/// models may name the base model's end of text alone. Throws Error for an id that no token has.
std::vector<int> gguf_end_tokens(const files::GgufFile& file);

/// Whether a token of this name ends a message of which more follow, before a turn ends: a call of a tool.
bool ends_message(std::string_view token);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_READERS_GGUF_END_TOKENS_H_
