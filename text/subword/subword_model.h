// Models that turn a piece of text into ids: BPE, Unigram or WordPiece.
#ifndef BALLAST_TEXT_SUBWORD_SUBWORD_MODEL_H_
#define BALLAST_TEXT_SUBWORD_SUBWORD_MODEL_H_

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/json_reader.h"
#include "text/subword/token_table.h"

namespace ballast::text {

/// Immutable but for caches; safe to use from several threads.
class SubwordModel {
 public:
  virtual ~SubwordModel() = default;

  /// Appends the ids of `piece`, which is valid UTF-8.
  virtual void encode(std::string_view piece, std::vector<int>& ids) const = 0;
};

/// The ids of the tokens "<0x00>" to "<0xFF>", which encode characters that a vocabulary does not have; -1 for missing
/// ones.
using ByteTokens = std::array<int, 256>;

/// A model of a tokenizer.json.
struct VocabularyModel {
  std::string kind;                              ///< "BPE"
  std::shared_ptr<const TokenTable> texts;       ///< as in the file; empty for unused ids
  std::shared_ptr<const TokenTable> bytes = {};  ///< what they stand for, where the vocabulary is written in the byte
                                                 ///< alphabet
  std::unique_ptr<SubwordModel> model;
};

/// Reads the `model` of a tokenizer.json. `byte_level`: the vocabulary is written in the byte alphabet
/// (byte_alphabet.h). Throws Error naming file and path for another type and for contradictions.
VocabularyModel read_subword_model(const files::JsonReader& model, bool byte_level);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_SUBWORD_SUBWORD_MODEL_H_
