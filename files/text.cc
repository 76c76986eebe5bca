#include "files/text.h"

#include <nlohmann/json.hpp>

namespace ballast::files {

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kLongest = 120;
  const bool cut = text.size() > kLongest;
  return nlohmann::json(std::string(text.substr(0, kLongest)) + (cut ? "..." : ""))
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace ballast::files
