// Reads vocabularies in tiktoken's format, in which a token's rank is also its precedence in merging: tiktoken.model
// (Kimi, Qwen 1, Llama 3's own tokenizer.model) and tekken.json (Mistral).
#ifndef BALLAST_TEXT_READERS_RANKED_VOCABULARY_H_
#define BALLAST_TEXT_READERS_RANKED_VOCABULARY_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace ballast::text {

/// Returns whether a file begins like a list of ranks: base64, a space, a number.
bool is_rank_list(std::string_view content);

/// Returns the tokenizer.json for a list of ranks: lines of a token's bytes in base64 and its rank, which is its id.
/// `family` is a name that pre_tokenizer_family knows. Special tokens are in `config`; those that the family has
/// without listing them are added to it. Throws Error naming `file` and line.
nlohmann::json read_rank_list(std::string_view content, const std::string& file, const std::string& family,
                              nlohmann::json& config);

/// Returns the tokenizer.json for a tekken.json: its special tokens first, then tokens by rank. Adds names of special
/// tokens to `config` where it has none. Throws Error naming `file` and path.
nlohmann::json read_tekken(std::string_view content, const std::string& file, nlohmann::json& config);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_READERS_RANKED_VOCABULARY_H_
