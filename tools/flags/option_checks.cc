#include "tools/flags/option_checks.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "ballast/error.h"
#include "ballast/text.h"

namespace ballast::tools {
namespace {

/// The prefix of validators' names that list values; CLI11 gives access only to the name.
constexpr std::string_view kValues = "values:";

std::string name_of_values(const std::vector<std::string>& values) {
  return std::string(kValues) + CLI::detail::join(values, "|");
}

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

CLI::Validator one_of(const std::vector<std::string>& values) {
  return CLI::IsMember(values).description("").name(name_of_values(values));
}

CLI::Validator suggested(const std::vector<std::string>& values) {
  return {[](const std::string&) { return std::string(); }, "", name_of_values(values)};
}

std::uint64_t parse_bytes(std::string_view option, std::string_view text) {
  try {
    return text::parse_bytes(option, text);
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
}

std::vector<std::string> known_values(CLI::Option& option) {
  try {
    const std::string& name = option.get_validator("")->get_name();
    return name.starts_with(kValues) ? CLI::detail::split(name.substr(kValues.size()), '|')
                                     : std::vector<std::string>();
  } catch (const CLI::OptionNotFound&) {  // it has no checks; CLI11 reports this only by an exception
    return {};
  }
}

}  // namespace ballast::tools
