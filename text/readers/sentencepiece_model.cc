#include "text/readers/sentencepiece_model.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "ballast/error.h"
#include "files/utf8.h"
#include "text/subword/vocabulary.h"

namespace ballast::text {
namespace {

[[noreturn]] void refuse_model(const std::string& file) {
  throw Error(file, "is not a SentencePiece model, or was cut off: download it again");
}

// Reads the fields of a message of a protocol buffer one after the other.
class MessageReader {
 public:
  struct Field {
    std::uint64_t number = 0;
    std::uint64_t value = 0;  // of a number; a float's bits
    std::string_view bytes;   // of a text or an inner message
  };

  MessageReader(std::string_view message, const std::string& file) : rest_(message), file_(file) {}

  std::optional<Field> next() {
    if (rest_.empty()) return std::nullopt;
    const std::uint64_t key = varint();
    Field field = {.number = key >> 3, .value = 0, .bytes = {}};
    switch (key & 7u) {
      case 0:
        field.value = varint();
        break;
      case 1:
        field.value = little_endian(take(8));
        break;
      case 2:
        field.bytes = take(varint());
        break;
      case 5:
        field.value = little_endian(take(4));
        break;
      default:
        fail();
    }
    return field;
  }

 private:
  [[noreturn]] void fail() const { refuse_model(file_); }

  std::string_view take(std::uint64_t size) {
    if (size > rest_.size()) fail();
    const std::string_view bytes = rest_.substr(0, static_cast<std::size_t>(size));
    rest_.remove_prefix(bytes.size());
    return bytes;
  }

  static std::uint64_t little_endian(std::string_view bytes) {
    std::uint64_t number = 0;
    for (std::size_t i = bytes.size(); i-- > 0;) number = number << 8 | static_cast<unsigned char>(bytes[i]);
    return number;
  }

  std::uint64_t varint() {
    std::uint64_t number = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      number |= static_cast<std::uint64_t>(byte & 0x7Fu) << shift;
      if (byte < 0x80) return number;
    }
    fail();
  }

  std::string_view rest_;
  const std::string& file_;
};

SentencePiece read_piece(std::string_view message, const std::string& file) {
  SentencePiece piece;
  MessageReader reader(message, file);
  while (const std::optional<MessageReader::Field> field = reader.next()) {
    if (field->number == 1) piece.text = field->bytes;
    if (field->number == 2) piece.score = std::bit_cast<float>(static_cast<std::uint32_t>(field->value));
    if (field->number == 3) piece.type = static_cast<SentencePiece::Type>(field->value & 0xFFu);
  }
  return piece;
}

}  // namespace

SentencePieceModel read_sentencepiece_model(std::string_view bytes, const std::string& file) {
  constexpr std::uint64_t kPieces = 1;
  constexpr std::uint64_t kTrainer = 2;  // follows the pieces
  constexpr std::uint64_t kNormalizer = 3;
  constexpr std::uint64_t kCharsmap = 2;
  SentencePieceModel model;
  bool is_whole = false;
  MessageReader reader(bytes, file);
  while (const std::optional<MessageReader::Field> field = reader.next()) {
    is_whole = is_whole || field->number == kTrainer;
    if (field->number == kPieces) {
      model.pieces.push_back(read_piece(field->bytes, file));
      if (!files::is_utf8(model.pieces.back().text)) {
        throw Error(file, "piece " + std::to_string(model.pieces.size() - 1) + " is not UTF-8");
      }
      if (model.pieces.size() > kMaxTokenId) throw Error(file, "has too many pieces");
    } else if (field->number == kNormalizer) {
      MessageReader normalizer(field->bytes, file);
      while (const std::optional<MessageReader::Field> rule = normalizer.next()) {
        if (rule->number == kCharsmap) model.charsmap = rule->bytes;
      }
    }
  }
  if (model.pieces.empty() || !is_whole) refuse_model(file);
  return model;
}

}  // namespace ballast::text
