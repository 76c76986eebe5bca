// Writes the parts of a tokenizer.json.
#ifndef BALLAST_TEXT_READERS_TOKENIZER_JSON_PARTS_H_
#define BALLAST_TEXT_READERS_TOKENIZER_JSON_PARTS_H_

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "text/pipeline/pre_tokenizer_families.h"

namespace ballast::text {

/// Returns an element of `added_tokens`.
nlohmann::json added_token(std::size_t id, const std::string& content, bool special);

/// Returns a post-processor that adds tokens, each with its id, around every text.
nlohmann::json frame_template(const std::vector<std::pair<std::string, nlohmann::json>>& prefix,
                              const std::vector<std::pair<std::string, nlohmann::json>>& suffix);

/// Returns a complete tokenizer.json of byte-level BPE.
nlohmann::json byte_level_tokenizer_json(PreTokenizerFamily family, nlohmann::json vocab, nlohmann::json merges,
                                         nlohmann::json added, nlohmann::json post_processor);

/// Returns a complete tokenizer.json of BPE on characters with byte tokens, like Llama 2's. `adds_space`: before every
/// text.
nlohmann::json byte_fallback_tokenizer_json(bool adds_space, const nlohmann::json& unknown, nlohmann::json vocab,
                                            nlohmann::json merges, nlohmann::json added, nlohmann::json post_processor);

struct BertNormalization {
  bool lowercase = true;
  nlohmann::json strip_accents = nullptr;  ///< null: strips accents if text is lower-cased
  bool handle_chinese_chars = true;        ///< each is a word
};

/// Returns a complete tokenizer.json of BERT's WordPiece, with "##" before tokens that continue a word.
nlohmann::json word_piece_tokenizer_json(const BertNormalization& normalization, const std::string& unknown,
                                         nlohmann::json vocab, nlohmann::json added, nlohmann::json post_processor);

/// SentencePiece's treatment of spaces.
struct SpaceRules {
  bool prefix = true;  ///< a space is added before every text
  bool merge = true;   ///< runs of spaces become one, and those at the ends are removed
  bool split = true;   ///< tokens do not extend over spaces, so words can be encoded separately
};

/// Returns a complete tokenizer.json of SentencePiece's unigram model. `charsmap`: its compiled normalization rules in
/// base64, empty for none; `vocab`: a list of tokens and scores; the token with id `unknown` replaces unknown text,
/// unless that is encoded in `bytes`.
nlohmann::json unigram_tokenizer_json(const SpaceRules& spaces, const std::string& charsmap, std::size_t unknown,
                                      bool bytes, nlohmann::json vocab, nlohmann::json added,
                                      nlohmann::json post_processor);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_READERS_TOKENIZER_JSON_PARTS_H_
