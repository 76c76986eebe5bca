// SentencePiece's compiled normalization rules (`precompiled_charsmap`): replacements of character sequences.
#ifndef BALLAST_TEXT_UNICODE_CHARSMAP_H_
#define BALLAST_TEXT_UNICODE_CHARSMAP_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ballast::text {

/// Immutable; safe to use from several threads. The bytes are a little-endian U32, the size of a double-array trie in
/// bytes; the trie in the format of the library darts-clone, which maps sequences to offsets; and texts that end with a
/// zero byte.
class Charsmap {
 public:
  /// Throws Error naming `context` if the sizes do not match, an offset is out of range, or a text is not UTF-8.
  Charsmap(std::string_view bytes, const std::string& context);

  /// Normalizes like Hugging Face's library: a grapheme of up to 5 bytes is replaced as a whole, longer ones character
  /// by character, each by the replacement of its shortest matching prefix.
  std::string normalize(std::string_view text) const;

 private:
  // A unit of the trie has a label, whether a value follows, and the offset of its children; or it is a value.
  using Unit = std::uint32_t;
  static std::uint32_t label(Unit unit) { return unit & 0x800000FFu; }
  static bool has_value(Unit unit) { return (unit >> 8 & 1u) != 0; }
  static std::uint32_t value(Unit unit) { return unit & 0x7FFFFFFFu; }
  static std::uint32_t offset(Unit unit) { return unit >> 10 << ((unit & 0x200u) >> 6); }

  void check_trie(const std::string& context) const;
  void check_value(std::uint32_t value, const std::string& context) const;
  std::optional<std::string_view> replacement(std::string_view text) const;

  std::vector<Unit> units_;
  std::string texts_;
};

}  // namespace ballast::text

#endif  // BALLAST_TEXT_UNICODE_CHARSMAP_H_
