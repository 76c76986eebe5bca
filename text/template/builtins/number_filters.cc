#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "text/template/builtins.h"
#include "text/template/operators.h"
#include "text/template/values/numbers.h"

namespace ballast::text::jinja {
namespace {

using Integer = std::int64_t;

Value absolute(Interpreter& /*interpreter*/, const Value& input, const Arguments& arguments) {
  const Bound bound("the filter abs", arguments, {});
  if (const auto* missing = input.get<Undefined>()) fail(*missing->problem);
  if (!input.is_number()) fail("the filter abs takes a number, not a value of the type " + type_name(input));
  if (input.is_float()) return {std::abs(input.number())};
  return signed_number(input, input.integral() < 0);
}

Value to_integer(Interpreter& /*interpreter*/, const Value& input, const Arguments& arguments) {
  const Bound bound("the filter int", arguments, {"default", "base"});
  if (const auto* missing = input.get<Undefined>()) fail(*missing->problem);
  Value fallback = bound.value(0, Value(Integer{0}));
  if (input.is_integral()) return {input.integral()};
  std::optional<double> number;
  if (input.is_float()) {
    if (std::isinf(input.number())) fail("the filter int cannot take what is infinite");
    number = input.number();
  } else if (const Text* text = input.text()) {
    if (const std::optional<Integer> read = read_integer(*text, bound.integer(1, 10))) return {*read};
    number = read_float(*text);
  }
  if (!number || !std::isfinite(*number)) return fallback;
  if (std::abs(*number) >= 0x1p63) fail("a number takes more than 64 bits");
  return {static_cast<Integer>(*number)};
}

Value to_float(Interpreter& /*interpreter*/, const Value& input, const Arguments& arguments) {
  const Bound bound("the filter float", arguments, {"default"});
  if (const auto* missing = input.get<Undefined>()) fail(*missing->problem);
  if (input.is_number()) return {input.number()};
  const std::optional<double> read = input.text() != nullptr ? read_float(*input.text()) : std::nullopt;
  return read ? Value(*read) : bound.value(0, Value(0.0));
}

// Rounds to a number of decimals; ties, which are rare in binary fractions, to even.
double rounded(double value, Integer precision) {
  if (!std::isfinite(value) || precision > 300) return value;
  if (precision < 0) {
    const double unit = std::pow(10.0, -static_cast<double>(precision));
    return std::isfinite(unit) ? std::nearbyint(value / unit) * unit : 0.0;
  }
  char digits[700];
  std::snprintf(digits, sizeof digits, "%.*f", static_cast<int>(precision), value);
  return std::strtod(digits, nullptr);
}

// Rounds to the nearest multiple of a power of ten, exactly; ties to even.
Integer rounded(Integer value, Integer zeros) {
  constexpr Integer kMostZeros = 18;  // the largest power that fits 64 bits
  constexpr Integer kHalfOfNext = 5'000'000'000'000'000'000;
  if (zeros > kMostZeros) {
    const bool is_far = zeros == kMostZeros + 1 && (value > kHalfOfNext || value < -kHalfOfNext);
    if (is_far) fail("a number takes more than 64 bits");
    return 0;
  }
  Integer unit = 1;
  for (Integer i = 0; i < zeros; ++i) unit *= 10;
  Integer multiple = value / unit;
  const Integer rest = std::abs(value % unit);
  const bool is_tie = rest == unit - rest;
  if (rest > unit - rest || (is_tie && multiple % 2 != 0)) multiple += value < 0 ? -1 : 1;
  if (__builtin_mul_overflow(multiple, unit, &multiple)) fail("a number takes more than 64 bits");
  return multiple;
}

Value round(Interpreter& /*interpreter*/, const Value& input, const Arguments& arguments) {
  const Bound bound("the filter round", arguments, {"precision", "method"});
  if (const auto* missing = input.get<Undefined>()) fail(*missing->problem);
  const Integer precision = bound.integer(0, 0);
  const TextView method = bound.text(1, U"common");
  if (!input.is_number()) fail("the filter round takes a number, not a value of the type " + type_name(input));
  if (same_text(method, U"common")) {
    if (!input.is_integral()) return {rounded(input.number(), precision)};
    // The most negative number has no positive counterpart, and more zeros than digits round any number to 0.
    constexpr Integer kMostZeros = 100;
    return {precision >= 0 ? input.integral() : rounded(input.integral(), -std::max(precision, -kMostZeros))};
  }
  const bool is_ceil = same_text(method, U"ceil");
  if (!is_ceil && !same_text(method, U"floor")) fail("the filter round has the methods common, ceil and floor");
  const double unit = std::pow(10.0, static_cast<double>(precision));
  const double scaled = input.number() * unit;
  if (!std::isfinite(scaled)) fail("the filter round is given a number that is too large");
  if (unit == 0) fail("the filter round is given too small a precision");
  return {(is_ceil ? std::ceil(scaled) : std::floor(scaled)) / unit};
}

Value sum(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const Bound bound("the filter sum", arguments, {"attribute", "start"});
  const AttributePath path(bound.value(0, Value()));
  Value total = bound.value(1, Value(Integer{0}));
  if (total.text() != nullptr) fail("the filter sum does not take strings; use the filter join");
  for (const Value& one : items_of(input)) total = arithmetic(interpreter, "+", total, path.of(one));
  return total;
}

constexpr NamedFilter kNumberFilters[] = {
    {"abs", absolute}, {"float", to_float}, {"int", to_integer}, {"round", round}, {"sum", sum},
};

}  // namespace

std::span<const NamedFilter> number_filters() {
  return kNumberFilters;
}

}  // namespace ballast::text::jinja
