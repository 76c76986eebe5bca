// Writing the parts of a tokenizer.json.
#ifndef BALLAST_TEXT_READERS_TOKENIZER_JSON_PARTS_H_
#define BALLAST_TEXT_READERS_TOKENIZER_JSON_PARTS_H_

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "text/pipeline/pre_tokenizer_families.h"

namespace ballast::text {

/// An element of `added_tokens`.
nlohmann::json added_token(std::size_t id, const std::string& content, bool special);

/// A post-processor that puts tokens, each with its id, around every text.
nlohmann::json frame_template(const std::vector<std::pair<std::string, nlohmann::json>>& prefix,
                              const std::vector<std::pair<std::string, nlohmann::json>>& suffix);

/// A whole tokenizer.json of byte-level BPE.
nlohmann::json byte_level_tokenizer_json(PreTokenizerFamily family, nlohmann::json vocab, nlohmann::json merges,
                                         nlohmann::json added, nlohmann::json post_processor);

/// A whole tokenizer.json of BPE on characters with byte tokens, as Llama 2's. `adds_space`: in front of every text.
nlohmann::json byte_fallback_tokenizer_json(bool adds_space, const nlohmann::json& unknown, nlohmann::json vocab,
                                            nlohmann::json merges, nlohmann::json added, nlohmann::json post_processor);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_READERS_TOKENIZER_JSON_PARTS_H_
