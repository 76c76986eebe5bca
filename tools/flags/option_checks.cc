#include "tools/flags/option_checks.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <system_error>
#include <utility>

namespace ballast::tools {
namespace {

template <typename Number>
std::optional<Number> parse_all(const std::string& text) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc{} && stop == end ? std::optional(number) : std::nullopt;
}

}  // namespace

OptionCheck whole_number(std::uint64_t least, std::uint64_t most) {
  return [least, most](const std::string& text) -> std::string {
    const auto number = parse_all<std::uint64_t>(text);
    if (number && *number >= least && *number <= most) return {};
    return "'" + text + "' must be a whole number from " + std::to_string(least) + " to " + std::to_string(most);
  };
}

OptionCheck real_number(std::function<bool(double)> accepts, std::string range) {
  return [accepts = std::move(accepts), range = std::move(range)](const std::string& text) -> std::string {
    const auto number = parse_all<double>(text);
    if (number && std::isfinite(*number) && accepts(*number)) return {};
    return "'" + text + "' must be a number " + range;
  };
}

}  // namespace ballast::tools
