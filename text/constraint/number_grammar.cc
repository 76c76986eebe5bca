#include "text/constraint/number_grammar.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string_view>
#include <vector>

#include "text/constraint/grammar_text.h"

namespace ballast::text {
namespace {

constexpr std::size_t kSignificantDigits = 15;

/// Alternatives of an expression.
class Alternatives {
 public:
  void add(const std::string& expression) {
    if (expression.empty()) return;
    text_ += (text_.empty() ? "" : " | ") + expression;
  }
  std::string in_parentheses() const { return text_.empty() ? "" : "(" + text_ + ")"; }

 private:
  std::string text_;
};

std::string digit_class(char first, char last) {
  if (first == last) return std::string("\"") + first + "\"";
  return std::string("[") + first + "-" + last + "]";
}

std::string any_digits(std::size_t count) {
  return count == 0 ? "" : " [0-9]" + grammar_repetition(count, count);
}

/// Digits of the same number from `least` to `most`.
std::string digits_between(std::string_view least, std::string_view most) {
  if (least.empty()) return "\"\"";
  const std::string_view least_rest = least.substr(1);
  const std::string_view most_rest = most.substr(1);
  if (least[0] == most[0]) return digit_class(least[0], least[0]) + " " + digits_between(least_rest, most_rest);
  const bool from_first = least_rest.find_first_not_of('0') == std::string_view::npos;
  const bool to_last = most_rest.find_first_not_of('9') == std::string_view::npos;
  const std::size_t rest = least_rest.size();
  Alternatives all;
  if (!from_first) {
    all.add(digit_class(least[0], least[0]) + " " + digits_between(least_rest, std::string(rest, '9')));
  }
  const char first = static_cast<char>(from_first ? least[0] : least[0] + 1);
  const char last = static_cast<char>(to_last ? most[0] : most[0] - 1);
  if (first <= last) all.add(digit_class(first, last) + any_digits(rest));
  if (!to_last) all.add(digit_class(most[0], most[0]) + " " + digits_between(std::string(rest, '0'), most_rest));
  return all.in_parentheses();
}

/// Integers from `least` to `most`, both at least 0; empty if there are none.
std::string magnitudes(std::int64_t least, std::int64_t most) {
  if (least > most) return "";
  Alternatives all;
  std::string from = std::to_string(least);
  const std::string to = std::to_string(most);
  for (; from.size() < to.size(); from = "1" + std::string(from.size(), '0')) {
    all.add(digits_between(from, std::string(from.size(), '9')));
  }
  all.add(digits_between(from, to));
  return all.in_parentheses();
}

/// A decimal number of at least 0: `whole`, and digits after the point without zeros at the end.
struct Decimal {
  std::int64_t whole = 0;
  std::string fraction;
};

/// Returns the decimal with at most kSignificantDigits digits that is nearest to `value` among those that are not
/// smaller
/// (`up`) or not larger.
Decimal to_decimal(double value, bool up) {
  std::array<char, 64> buffer;
  std::snprintf(buffer.data(), buffer.size(), "%.*f", static_cast<int>(kSignificantDigits), value);
  const std::string_view text = buffer.data();
  const std::size_t point = text.find('.');
  Decimal decimal = {.whole = std::strtoll(buffer.data(), nullptr, 10),
                     .fraction = std::string(text.substr(point + 1))};
  // Printing rounds to the nearest, which may be on the wrong side.
  const double rounded = std::strtod(buffer.data(), nullptr);
  const bool is_wrong = up ? rounded < value : rounded > value;
  for (std::size_t i = kSignificantDigits; is_wrong && i-- > 0;) {
    char& digit = decimal.fraction[i];
    if (digit != (up ? '9' : '0')) {
      digit = static_cast<char>(up ? digit + 1 : digit - 1);
      break;
    }
    digit = up ? '0' : '9';
    if (i == 0) decimal.whole += up ? 1 : -1;
  }
  decimal.fraction.erase(decimal.fraction.find_last_not_of('0') + 1);
  return decimal;
}

/// Returns the number of digits after the point for numbers of this whole part: 15 digits in all, so that different
/// numbers are different as doubles, too.
std::size_t fraction_digits(std::int64_t whole) {
  return kSignificantDigits - std::min(kSignificantDigits, std::to_string(whole).size());
}

std::string any_digits_up_to(std::size_t least, std::size_t most, std::string_view digits) {
  if (most < least) return "";
  return most == 0 ? "\"\"" : std::string(digits) + grammar_repetition(least, most);
}

/// The digits after a point of numbers in one unit, [0, 1), between two bounds.
struct FractionRange {
  std::optional<std::string_view> least{};  ///< digits; absent: no bound on this side
  std::optional<std::string_view> most{};
  bool excludes_least = false;
  bool excludes_most = false;
};

/// Returns an expression for at least one digit, or any number if `may_end`, and at most `left`; empty: there is none.
std::string fractions_in(const FractionRange& range, std::size_t left, bool may_end) {
  const auto& [least, most, excludes_least, excludes_most] = range;
  const std::size_t fewest = may_end ? 0 : 1;
  const bool least_met = !least || (least->empty() && !excludes_least);
  if (least_met && !most) return any_digits_up_to(fewest, left, "[0-9]");
  // At the end of the upper bound only zeros may follow.
  if (most && most->empty()) return excludes_most || !least_met ? "" : any_digits_up_to(fewest, left, "\"0\"");
  Alternatives all;
  // A number that ends here is at least the lower bound, and below the upper one, which has more digits.
  if (least_met && may_end) all.add("\"\"");
  if (left == 0) return all.in_parentheses();
  const char high = most ? most->front() : '9';
  const char low = !least_met && !least->empty() ? least->front() : '0';
  for (char digit = low; digit <= high; ++digit) {
    const bool on_low = !least_met && digit == low;
    const bool on_high = most && digit == high;
    FractionRange next = {.excludes_least = excludes_least, .excludes_most = excludes_most};
    if (on_low) next.least = least->empty() ? *least : least->substr(1);
    if (on_high) next.most = most->substr(1);
    // All digits between the two have the same rest.
    const char last = on_low || on_high ? digit : static_cast<char>(most ? high - 1 : high);
    const std::string rest = fractions_in(next, left - 1, true);
    if (!rest.empty()) all.add(digit_class(digit, last) + " " + rest);
    digit = last;
  }
  return all.in_parentheses();
}

/// Numbers of at least 0 in a range.
std::string non_negative_numbers(NumberBound least, NumberBound most) {
  if (least.value > static_cast<double>(kLargestInteger)) return "";
  const Decimal low = to_decimal(least.value, true);
  const bool has_end = most.value < static_cast<double>(kLargestInteger);
  const Decimal high = has_end ? to_decimal(most.value, false) : Decimal{.whole = kLargestInteger, .fraction = {}};
  // An excluded value that is not itself a decimal of this many digits excludes nothing.
  const bool excludes_low =
      least.excluded &&
      std::strtod((std::to_string(low.whole) + "." + low.fraction + "0").c_str(), nullptr) == least.value;
  const bool excludes_high =
      has_end && most.excluded &&
      std::strtod((std::to_string(high.whole) + "." + high.fraction + "0").c_str(), nullptr) == most.value;
  Alternatives all;
  const auto add_unit = [&](std::int64_t whole, std::optional<std::string_view> from,
                            std::optional<std::string_view> to) {
    const std::string number = "\"" + std::to_string(whole) + "\"";
    const bool is_after = !from || (from->empty() && !excludes_low);
    if (is_after && (!to || !to->empty() || !excludes_high)) all.add(number);
    const std::string fraction =
        fractions_in({from, to, from && excludes_low, to && excludes_high}, fraction_digits(whole), false);
    if (!fraction.empty()) all.add(number + " \".\" " + fraction);
  };
  if (low.whole > high.whole) return "";
  if (low.whole == high.whole) {
    add_unit(low.whole, low.fraction, high.fraction);
    return all.in_parentheses();
  }
  add_unit(low.whole, low.fraction, std::nullopt);
  std::string between = magnitudes(low.whole + 1, high.whole - 1);
  const std::string fraction = any_digits_up_to(1, fraction_digits(high.whole), "[0-9]");
  if (!between.empty() && !fraction.empty()) between += " (\".\" " + fraction + ")?";
  all.add(between);
  add_unit(high.whole, std::nullopt, high.fraction);
  return all.in_parentheses();
}

}  // namespace

std::string integer_grammar(std::int64_t least, std::int64_t most) {
  Alternatives all;
  if (least < 0) {
    const std::string negative = magnitudes(std::max<std::int64_t>(1, -most), -least);
    if (!negative.empty()) all.add("\"-\" " + negative);
  }
  all.add(magnitudes(std::max<std::int64_t>(0, least), most));
  return all.in_parentheses();
}

std::string number_grammar(NumberBound least, NumberBound most) {
  if (std::isinf(least.value) && std::isinf(most.value)) {
    return "(\"-\"? (\"0\" | [1-9] [0-9]{0,17}) (\".\" [0-9]{1,15})? ([eE] [-+]? [0-9]{1,2})?)";
  }
  Alternatives all;
  if (most.value >= 0 && !(most.value == 0 && most.excluded)) {
    all.add(non_negative_numbers(least.value < 0 ? NumberBound{} : least, most));
  }
  if (least.value < 0) {
    // Zero is among the others.
    const NumberBound smallest = most.value < 0 ? NumberBound{-most.value, most.excluded} : NumberBound{0, true};
    const std::string negative = non_negative_numbers(smallest, {-least.value, least.excluded});
    if (!negative.empty()) all.add("\"-\" " + negative);
  }
  return all.in_parentheses();
}

}  // namespace ballast::text
