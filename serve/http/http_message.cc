#include "serve/http/http_message.h"

#include <algorithm>

namespace ballast::serve {

std::string_view HttpRequest::header(std::string_view name) const {
  const auto found =
      std::ranges::find(headers, name, [](const auto& header) -> const std::string& { return header.first; });
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

}  // namespace ballast::serve
