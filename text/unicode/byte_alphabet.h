// The printable alphabet of byte-level vocabularies: one character for each of the 256 bytes (bytes_to_unicode of
// GPT-2's encoder.py).
#ifndef BALLAST_TEXT_UNICODE_BYTE_ALPHABET_H_
#define BALLAST_TEXT_UNICODE_BYTE_ALPHABET_H_

#include <optional>
#include <string>
#include <string_view>

namespace ballast::text {

/// Returns the bytes of `text` (valid UTF-8), or nullopt if it has a character outside the alphabet.
std::optional<std::string> bytes_of_alphabet(std::string_view text);

/// The inverse of bytes_of_alphabet.
std::string alphabet_of_bytes(std::string_view bytes);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_UNICODE_BYTE_ALPHABET_H_
