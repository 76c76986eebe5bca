// Base64 (RFC 4648, 4).
#ifndef BALLAST_TEXT_UNICODE_BASE64_H_
#define BALLAST_TEXT_UNICODE_BASE64_H_

#include <optional>
#include <string>
#include <string_view>

namespace ballast::text {

/// Decodes `text`, which is padded to a multiple of four characters; returns nullopt if it is not base64.
std::optional<std::string> decode_base64(std::string_view text);

/// Encodes bytes, padded in the same way.
std::string encode_base64(std::string_view bytes);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_UNICODE_BASE64_H_
