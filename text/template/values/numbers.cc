#include "text/template/values/numbers.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>
#include <string>

#include "text/template/values/value.h"

namespace ballast::text::jinja {
namespace {

// Returns the text in lower case, without white space around it and single underscores between digits. Returns nullopt
// for other underscores.
std::optional<std::string> plain_digits(TextView text) {
  const std::string written = to_utf8(strip_text(text, Side::kBoth));
  std::string digits;
  for (std::size_t i = 0; i < written.size(); ++i) {
    const auto is_digit = [&](std::size_t at) {
      return at < written.size() && std::isalnum(static_cast<unsigned char>(written[at])) != 0;
    };
    if (written[i] == '_') {
      if (i == 0 || !is_digit(i - 1) || !is_digit(i + 1)) return std::nullopt;
    } else {
      digits += static_cast<char>(std::tolower(static_cast<unsigned char>(written[i])));
    }
  }
  return digits;
}

// Removes the sign.
bool is_negative(std::string_view& digits) {
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.remove_prefix(1);
  return negative;
}

int take_base(std::string_view& digits, std::int64_t base) {
  const std::string_view prefix = digits.substr(0, 2);
  const int written = prefix == "0x" ? 16 : prefix == "0o" ? 8 : prefix == "0b" ? 2 : 0;
  if (written != 0 && (base == written || base == 0)) {
    digits.remove_prefix(2);
    return written;
  }
  return base == 0 ? 10 : static_cast<int>(base);
}

}  // namespace

std::optional<std::int64_t> read_integer(TextView text, std::int64_t base) {
  if (base != 0 && (base < 2 || base > 36)) return std::nullopt;
  const std::optional<std::string> plain = plain_digits(text);
  if (!plain) return std::nullopt;
  std::string_view digits = *plain;
  const bool negative = is_negative(digits);
  const int used_base = take_base(digits, base);
  if (digits.empty() || digits.front() == '-') return std::nullopt;
  const std::string number = (negative ? "-" : "") + std::string(digits);
  std::int64_t value = 0;
  const auto read = std::from_chars(number.data(), number.data() + number.size(), value, used_base);
  if (read.ptr != number.data() + number.size() || read.ec == std::errc::invalid_argument) return std::nullopt;
  if (read.ec == std::errc::result_out_of_range) fail("a number takes more than 64 bits");
  return value;
}

std::optional<double> read_float(TextView text) {
  const std::optional<std::string> plain = plain_digits(text);
  if (!plain) return std::nullopt;
  std::string_view digits = *plain;
  const bool negative = is_negative(digits);
  if (digits.empty() || digits.front() == '-') return std::nullopt;
  double value = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (read.ptr != digits.data() + digits.size() || read.ec == std::errc::invalid_argument) return std::nullopt;
  if (digits.starts_with("nan(")) return std::nullopt;
  if (read.ec == std::errc::result_out_of_range) value = std::strtod(std::string(digits).c_str(), nullptr);
  return negative ? -value : value;
}

}  // namespace ballast::text::jinja
