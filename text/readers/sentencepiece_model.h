// Reads the contents of a SentencePiece model, a protocol buffer (sentencepiece_model.proto): its pieces and rules.
#ifndef BALLAST_TEXT_READERS_SENTENCEPIECE_MODEL_H_
#define BALLAST_TEXT_READERS_SENTENCEPIECE_MODEL_H_

#include <string>
#include <string_view>
#include <vector>

namespace ballast::text {

struct SentencePiece {
  /// Values as in the file.
  enum class Type { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

  std::string text;
  float score = 0;
  Type type = Type::kNormal;
};

struct SentencePieceModel {
  std::vector<SentencePiece> pieces;  ///< by id
  std::string charsmap;               ///< compiled normalization rules (charsmap.h); empty: none
};

/// Throws Error naming `file` if the bytes are not such a model, or a piece is not UTF-8.
SentencePieceModel read_sentencepiece_model(std::string_view bytes, const std::string& file);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_READERS_SENTENCEPIECE_MODEL_H_
