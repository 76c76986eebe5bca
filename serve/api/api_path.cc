#include "serve/api/api_path.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <system_error>

namespace ballast::serve {

std::string canonical_path(std::string_view path) {
  constexpr std::string_view kVersion = "/v1";
  std::string canonical;
  for (const char letter : path) {
    if (letter != '/' || !canonical.ends_with('/')) canonical += letter;
  }
  if (canonical.size() > 1 && canonical.ends_with('/')) canonical.pop_back();
  if (canonical.starts_with("/v1/")) canonical.erase(0, kVersion.size());
  return canonical;
}

std::string without_escapes(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    const std::string_view digits = text.substr(std::min(i + 1, text.size()), 2);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    const bool is_escape = text[i] == '%' && error == std::errc() && digits.size() == 2 && end == digits.end();
    plain += is_escape ? static_cast<char>(value) : text[i];
    if (is_escape) i += 2;
  }
  return plain;
}

std::string id_after(std::string_view path, std::string_view endpoint) {
  const std::string canonical = canonical_path(path);
  return without_escapes(std::string_view(canonical).substr(std::min(endpoint.size(), canonical.size())));
}

std::optional<std::string> query_value(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const std::string_view field = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(field.size() + 1, query.size()));
    if (!field.starts_with(name) || field.substr(name.size(), 1) != "=") continue;
    std::string value(field.substr(name.size() + 1));
    std::ranges::replace(value, '+', ' ');
    return without_escapes(value);
  }
  return std::nullopt;
}

ErrorForm error_form(std::string_view path) {
  const std::string canonical = canonical_path(path);
  const auto is_in = [&](std::string_view root) {
    return canonical.starts_with(root) && (canonical.size() == root.size() || canonical[root.size()] == '/');
  };
  if (is_in("/messages")) return ErrorForm::kMessages;
  if (is_in("/responses")) return ErrorForm::kResponses;
  return is_in("/api") ? ErrorForm::kOllama : ErrorForm::kOpenAi;
}

}  // namespace ballast::serve
