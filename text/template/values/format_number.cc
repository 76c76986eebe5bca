#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include "text/template/values/budget.h"
#include "text/template/values/format.h"
#include "text/template/values/print.h"

namespace ballast::text::jinja {
namespace {

constexpr int kMostPrecision = 1000;

Text widened(std::string_view ascii) {
  return {ascii.begin(), ascii.end()};
}

std::string digits_in_base(std::uint64_t value, unsigned base) {
  std::string digits;
  do {
    digits += "0123456789abcdef"[value % base];
    value /= base;
  } while (value > 0);
  std::ranges::reverse(digits);
  return digits;
}

void group_thousands(std::string& digits) {
  const std::size_t whole = std::min(digits.find_first_not_of("0123456789"), digits.size());
  for (std::size_t at = whole; at > 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
}

std::string integer_digits(std::uint64_t magnitude, const FormatSpec& spec) {
  const unsigned base = spec.type == 'b' ? 2 : spec.type == 'o' ? 8 : spec.type == 'x' || spec.type == 'X' ? 16 : 10;
  std::string digits = digits_in_base(magnitude, base);
  if (spec.alternate && base != 10) digits = std::string("0") + static_cast<char>(spec.type | 0x20) + digits;
  if (spec.type == 'X') {
    std::ranges::transform(digits, digits.begin(),
                           [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  }
  return digits;
}

std::string float_digits(double magnitude, const FormatSpec& spec) {
  if (spec.type == 0 && !spec.precision) return print_float(magnitude);
  const int precision = spec.precision.value_or(6);
  if (precision > kMostPrecision) fail("a format has too large a precision");
  const bool is_percent = spec.type == '%';
  const char type = is_percent ? 'f' : spec.type == 0 ? 'g' : spec.type;
  const std::string pattern = std::string(spec.alternate ? "%#.*" : "%.*") + type;
  const double shown = is_percent ? magnitude * 100 : magnitude;
  std::string digits(static_cast<std::size_t>(kMostPrecision) + 400, '\0');
  const int length = std::snprintf(digits.data(), digits.size(), pattern.c_str(), precision, shown);
  digits.resize(static_cast<std::size_t>(length));
  // str() of a float has a point or an exponent.
  if (spec.type == 0 && digits.find_first_of(".en") == std::string::npos) digits += ".0";
  return is_percent ? digits + "%" : digits;
}

}  // namespace

Text padded_text(Text text, std::int64_t width, char32_t fill, Alignment alignment) {
  if (width <= static_cast<std::int64_t>(text.size())) return text;
  const auto missing = static_cast<std::size_t>(width) - text.size();
  spend_characters(missing);
  switch (alignment) {
    case Alignment::kLeft:
      return text + Text(missing, fill);
    case Alignment::kRight:
      return Text(missing, fill) + text;
    case Alignment::kCenter: {
      // If both the padding and the width are odd, Python puts the larger half on the left.
      const std::size_t left = missing / 2 + (missing & static_cast<std::size_t>(width) & 1U);
      return Text(left, fill) + text + Text(missing - left, fill);
    }
    case Alignment::kAfterSign: {
      const bool has_sign = !text.empty() && (text[0] == U'-' || text[0] == U'+' || text[0] == U' ');
      const std::size_t sign = has_sign ? 1 : 0;
      return text.substr(0, sign) + Text(missing, fill) + text.substr(sign);
    }
  }
  return text;
}

Text format_number(const Value& value, const FormatSpec& spec) {
  const bool wants_integer = spec.type != 0 && std::string_view("boxXd").contains(spec.type);
  bool is_negative = false;
  std::string digits;
  if (wants_integer || (spec.type == 0 && value.is_integral())) {
    if (!value.is_integral()) fail(std::string("a format of the type ") + spec.type + " takes an integer");
    is_negative = value.integral() < 0;
    const auto bits = static_cast<std::uint64_t>(value.integral());
    digits = integer_digits(is_negative ? 0 - bits : bits, spec);
  } else {
    const double number = value.number();
    is_negative = std::signbit(number) && !std::isnan(number);
    digits = float_digits(is_negative ? -number : number, spec);
  }
  if (spec.grouped) group_thousands(digits);
  if (is_negative) {
    digits.insert(0, "-");
  } else if (spec.sign != '-') {
    digits.insert(0, 1, spec.sign);
  }
  return padded_text(widened(digits), spec.width, spec.fill, spec.alignment.value_or(Alignment::kRight));
}

std::optional<std::int64_t> read_count(TextView text, std::size_t& at) {
  std::optional<std::int64_t> count;
  while (at < text.size() && unmarked(text[at]) >= U'0' && unmarked(text[at]) <= U'9') {
    count = count.value_or(0) * 10 + static_cast<std::int64_t>(unmarked(text[at++]) - U'0');
    if (*count > 1'000'000'000) fail("a format has too large a number");
  }
  return count;
}

}  // namespace ballast::text::jinja
