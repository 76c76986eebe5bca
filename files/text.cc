#include "files/text.h"

#include <utf8proc.h>

#include <nlohmann/json.hpp>

namespace ballast::files {

bool is_utf8(std::string_view text) {
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  auto left = static_cast<utf8proc_ssize_t>(text.size());
  while (left > 0) {
    utf8proc_int32_t code_point = 0;
    const utf8proc_ssize_t length = utf8proc_iterate(bytes, left, &code_point);
    if (length <= 0) return false;
    bytes += length;
    left -= length;
  }
  return true;
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kLongest = 120;
  const bool cut = text.size() > kLongest;
  return nlohmann::json(std::string(text.substr(0, kLongest)) + (cut ? "..." : ""))
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace ballast::files
