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

struct BertNormalization {
  bool lowercase = true;
  nlohmann::json strip_accents = nullptr;  ///< or true or false; null: where text is lower-cased
  bool handle_chinese_chars = true;        ///< each is a word
};

/// A whole tokenizer.json of BERT's WordPiece, with "##" before tokens that go on within a word.
nlohmann::json word_piece_tokenizer_json(const BertNormalization& normalization, const std::string& unknown,
                                         nlohmann::json vocab, nlohmann::json added, nlohmann::json post_processor);

/// What SentencePiece does with spaces.
struct SpaceRules {
  bool prefix = true;  ///< one comes before every text
  bool merge = true;   ///< several are one, and none is at the ends
  bool split = true;   ///< no token goes over one, so that each word may be looked at alone
};

/// A whole tokenizer.json of SentencePiece's unigram model. `charsmap`: its compiled normalization rules in base64,
/// empty for none; `vocab`: a list of tokens and scores, one of which, with id `unknown`, is for what is not known,
/// unless that is spelled in `bytes`.
nlohmann::json unigram_tokenizer_json(const SpaceRules& spaces, const std::string& charsmap, std::size_t unknown,
                                      bool bytes, nlohmann::json vocab, nlohmann::json added,
                                      nlohmann::json post_processor);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_READERS_TOKENIZER_JSON_PARTS_H_
