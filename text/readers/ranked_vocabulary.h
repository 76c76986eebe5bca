// Vocabularies in tiktoken's manner, where the rank of a token is its precedence in merging, too: tiktoken.model (Kimi,
// Qwen 1, Llama 3's own tokenizer.model) and tekken.json (Mistral).
#ifndef BALLAST_TEXT_READERS_RANKED_VOCABULARY_H_
#define BALLAST_TEXT_READERS_RANKED_VOCABULARY_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace ballast::text {

/// Whether a file begins as lists of ranks do: base64, a space, a number.
bool is_rank_list(std::string_view content);

/// The tokenizer.json that a list of ranks stands for: lines of a token's bytes in base64 and its rank, which is its
/// id. `family`: a name that pre_tokenizer_family knows. Special tokens are in `config`, which gets those that the
/// family has without listing them. Throws Error naming `file` and line.
nlohmann::json read_rank_list(std::string_view content, const std::string& file, const std::string& family,
                              nlohmann::json& config);

/// The tokenizer.json that a tekken.json stands for: its special tokens first, then tokens by rank. `config` gets the
/// names of special tokens where it has none. Throws Error naming `file` and path.
nlohmann::json read_tekken(std::string_view content, const std::string& file, nlohmann::json& config);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_READERS_RANKED_VOCABULARY_H_
