// The printable alphabet in which byte-level vocabularies are written: one character for each of the 256 bytes
// (bytes_to_unicode of GPT-2's encoder.py).
#ifndef BALLAST_TEXT_UNICODE_BYTE_ALPHABET_H_
#define BALLAST_TEXT_UNICODE_BYTE_ALPHABET_H_

#include <optional>
#include <string>
#include <string_view>

namespace ballast::text {

/// The bytes that `text` (valid UTF-8) stands for, nothing when it has a character outside the alphabet.
std::optional<std::string> bytes_of_alphabet(std::string_view text);

/// The other way round.
std::string alphabet_of_bytes(std::string_view bytes);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_UNICODE_BYTE_ALPHABET_H_
