#include "text/template/operators.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "text/template/builtins.h"
#include "text/template/values/budget.h"
#include "text/template/values/format.h"

namespace ballast::text::jinja {
namespace {

using Integer = std::int64_t;

[[noreturn]] void overflow() {
  fail("a number takes more than 64 bits");
}

Integer floor_quotient(Integer left, Integer right) {
  if (right == 0) fail("divides by zero");
  if (left == std::numeric_limits<Integer>::min() && right == -1) overflow();
  const Integer quotient = left / right;
  return left % right != 0 && (left < 0) != (right < 0) ? quotient - 1 : quotient;
}

Integer floor_remainder(Integer left, Integer right) {
  if (right == 0) fail("divides by zero");
  if (right == -1) return 0;
  const Integer remainder = left % right;
  return remainder != 0 && (remainder < 0) != (right < 0) ? remainder + right : remainder;
}

Integer integer_power(Integer base, Integer exponent) {
  Integer result = 1;
  for (Integer left = exponent; left > 0;) {
    if ((left & 1) != 0 && __builtin_mul_overflow(result, base, &result)) overflow();
    left >>= 1;
    if (left > 0 && __builtin_mul_overflow(base, base, &base)) overflow();
  }
  return result;
}

Value integer_arithmetic(std::string_view name, Integer left, Integer right) {
  Integer result = 0;
  if (name == "+" && __builtin_add_overflow(left, right, &result)) overflow();
  if (name == "-" && __builtin_sub_overflow(left, right, &result)) overflow();
  if (name == "*" && __builtin_mul_overflow(left, right, &result)) overflow();
  if (name == "//") result = floor_quotient(left, right);
  if (name == "%") result = floor_remainder(left, right);
  if (name == "**") result = integer_power(left, right);
  return {result};
}

double float_remainder(double left, double right) {
  const double remainder = std::fmod(left, right);
  if (remainder == 0) return std::copysign(0.0, right);
  return (remainder < 0) != (right < 0) ? remainder + right : remainder;
}

double float_arithmetic(std::string_view name, double left, double right) {
  if (name == "+") return left + right;
  if (name == "-") return left - right;
  if (name == "*") return left * right;
  if (name == "**") {
    if (left == 0 && right < 0) fail("divides by zero");
    const double power = std::pow(left, right);
    if (std::isnan(power) && !std::isnan(left) && !std::isnan(right)) fail("a power is no real number");
    if (std::isinf(power) && std::isfinite(left) && std::isfinite(right)) fail("a power is too large");
    return power;
  }
  if (right == 0) fail("divides by zero");
  if (name == "/") return left / right;
  if (name == "%") return float_remainder(left, right);
  return std::floor((left - float_remainder(left, right)) / right + 0.5);
}

Value number_arithmetic(std::string_view name, const Value& left, const Value& right) {
  const bool stays_integral = name != "/" && !(name == "**" && right.number() < 0);
  if (left.is_integral() && right.is_integral() && stays_integral) {
    return integer_arithmetic(name, left.integral(), right.integral());
  }
  return {float_arithmetic(name, left.number(), right.number())};
}

Value repeated(const Value& value, Integer count) {
  const auto times = static_cast<std::size_t>(std::max<Integer>(count, 0));
  const std::size_t size = value.text() != nullptr ? value.text()->size() : value.sequence()->items.size();
  std::size_t total = 0;
  if (__builtin_mul_overflow(size, times, &total)) fail("makes more text than a template may");
  if (const Text* text = value.text()) {
    spend_characters(total);
    Text result;
    for (std::size_t i = 0; i < times && !text->empty(); ++i) result += *text;
    return {std::move(result)};
  }
  spend_steps(total);
  std::vector<Value> items;
  for (std::size_t i = 0; i < times && size > 0; ++i) {
    items.insert(items.end(), value.sequence()->items.begin(), value.sequence()->items.end());
  }
  return make_sequence(value.sequence()->kind, std::move(items));
}

bool is_list_or_tuple(const Value& value) {
  const Sequence* sequence = value.sequence();
  return sequence != nullptr && (sequence->kind == Sequence::Kind::kList || sequence->kind == Sequence::Kind::kTuple);
}

bool can_repeat(const Value& value) {
  return value.text() != nullptr || is_list_or_tuple(value);
}

Value joined(const Sequence& left, const Sequence& right) {
  spend_steps(left.items.size() + right.items.size());
  std::vector<Value> items = left.items;
  items.insert(items.end(), right.items.begin(), right.items.end());
  return make_sequence(left.kind, std::move(items));
}

Value joined_text(const Value& left, const Value& right) {
  spend_characters(left.text()->size() + right.text()->size());
  if (left.is_markup() == right.is_markup()) {
    Text both = *left.text() + *right.text();
    return left.is_markup() ? Value::markup(std::move(both)) : Value(std::move(both));
  }
  return Value::markup(left.is_markup() ? *left.text() + escape_text(*right.text())
                                        : escape_text(*left.text()) + *right.text());
}

}  // namespace

Value arithmetic(Interpreter& interpreter, std::string_view name, const Value& left, const Value& right) {
  if (name == "%" && left.is_markup()) fail("a format after the filter safe or escape is not supported");
  if (name == "%" && left.text() != nullptr) return {format_percent(interpreter, *left.text(), right)};
  for (const Value* value : {&left, &right}) {
    if (const auto* missing = value->get<Undefined>()) fail(*missing->problem);
  }
  if (left.is_number() && right.is_number()) return number_arithmetic(name, left, right);
  if (name == "+" && left.text() != nullptr && right.text() != nullptr) {
    return joined_text(left, right);
  }
  if (name == "+" && is_list_or_tuple(left) && is_list_or_tuple(right) &&
      left.sequence()->kind == right.sequence()->kind) {
    return joined(*left.sequence(), *right.sequence());
  }
  if (name == "*" && can_repeat(left) && right.is_integral()) return repeated(left, right.integral());
  if (name == "*" && can_repeat(right) && left.is_integral()) return repeated(right, left.integral());
  fail("cannot compute " + type_name(left) + " " + std::string(name) + " " + type_name(right));
}

Value signed_number(const Value& value, bool is_negative) {
  if (const auto* missing = value.get<Undefined>()) fail(*missing->problem);
  if (!value.is_number()) fail("a value of the type " + type_name(value) + " has no sign");
  if (value.is_float()) return {is_negative ? -value.number() : value.number()};
  Integer result = value.integral();
  if (is_negative && __builtin_sub_overflow(Integer{0}, result, &result)) overflow();
  return {result};
}

bool compare(std::string_view name, const Value& left, const Value& right) {
  if (name == "==") return equal(left, right);
  if (name == "!=") return !equal(left, right);
  if (name == "in") return contains(right, left);
  if (name == "not in") return !contains(right, left);
  const bool has_nan =
      (left.is_float() && std::isnan(left.number())) || (right.is_float() && std::isnan(right.number()));
  if (name == "<") return less(left, right);
  if (name == ">") return less(right, left);
  if (name == "<=") return !less(right, left) && !has_nan;
  return !less(left, right) && !has_nan;
}

bool contains(const Value& container, const Value& item) {
  if (const Text* text = container.text()) {
    if (const auto* missing = item.get<Undefined>()) fail(*missing->problem);
    if (item.text() == nullptr) fail("only a string can be in a string, not a value of the type " + type_name(item));
    return find_text(*text, *item.text()) != TextView::npos;
  }
  if (const Dict* dict = container.dict()) return dict->find(item) != nullptr;
  const std::vector<Value> items = items_of(container);
  return std::ranges::any_of(items, [&](const Value& one) { return equal(one, item); });
}

std::vector<Value> items_of(const Value& value) {
  std::vector<Value> items;
  if (const Sequence* sequence = value.sequence()) {
    spend_steps(sequence->items.size());
    return sequence->items;
  }
  if (const Text* text = value.text()) {
    spend_steps(text->size());
    for (const char32_t character : *text) items.emplace_back(Text(1, character));
  } else if (const Dict* dict = value.dict()) {
    spend_steps(dict->size());
    for (const auto& [key, held] : dict->items()) items.push_back(key);
  } else if (Iterator* iterator = value.iterator()) {
    return iterator->take_rest();
  } else if (!value.is_undefined()) {
    fail("cannot go through a value of the type " + type_name(value));
  }
  return items;
}

}  // namespace ballast::text::jinja
