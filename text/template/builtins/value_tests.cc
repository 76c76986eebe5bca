// The tests after `is`.
#include <algorithm>

#include "text/template/builtins.h"
#include "text/template/interpreter.h"
#include "text/template/operators.h"
#include "text/template/values/print.h"

namespace ballast::text::jinja {
namespace {

using Answer = bool;

const Value& only(const Arguments& arguments) {
  if (arguments.positional.size() != 1 || !arguments.named.empty()) fail("this test takes one argument");
  return arguments.positional[0];
}

template <bool (*kAsk)(const Value&)>
Answer alone(Interpreter& /*interpreter*/, const Value& input, const Arguments& arguments) {
  if (!arguments.positional.empty() || !arguments.named.empty()) fail("this test takes no argument");
  return kAsk(input);
}

struct Operator {
  char text[7];
};

template <Operator kOperator>
Answer compared(Interpreter& /*interpreter*/, const Value& input, const Arguments& arguments) {
  return compare(kOperator.text, input, only(arguments));
}

bool has_remainder(Interpreter& interpreter, const Value& input, std::int64_t divisor, std::int64_t remainder) {
  return equal(arithmetic(interpreter, "%", input, Value(divisor)), Value(remainder));
}

Answer is_odd(Interpreter& interpreter, const Value& input, const Arguments& /*arguments*/) {
  return has_remainder(interpreter, input, 2, 1);
}

Answer is_even(Interpreter& interpreter, const Value& input, const Arguments& /*arguments*/) {
  return has_remainder(interpreter, input, 2, 0);
}

Answer is_divisible(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  return equal(arithmetic(interpreter, "%", input, only(arguments)), Value(std::int64_t{0}));
}

Answer is_same(Interpreter& /*interpreter*/, const Value& input, const Arguments& arguments) {
  return is_same_object(input, only(arguments));
}

bool is_defined(const Value& value) {
  return !value.is_undefined();
}

bool is_undefined(const Value& value) {
  return value.is_undefined();
}

bool is_none(const Value& value) {
  return value.is_none();
}

bool is_boolean(const Value& value) {
  return value.is_bool();
}

bool is_truth(const Value& value) {
  return value.is_bool() && is_true(value);
}

bool is_falsehood(const Value& value) {
  return value.is_bool() && !is_true(value);
}

bool is_integer(const Value& value) {
  return value.is_integral() && !value.is_bool();
}

bool is_float(const Value& value) {
  return value.is_float();
}

bool is_number(const Value& value) {
  return value.is_number();
}

bool is_string(const Value& value) {
  return value.text() != nullptr;
}

bool is_mapping(const Value& value) {
  return value.dict() != nullptr;
}

bool is_sequence(const Value& value) {
  const Sequence* sequence = value.sequence();
  return value.text() != nullptr || value.dict() != nullptr || value.is_undefined() ||
         (sequence != nullptr && sequence->kind <= Sequence::Kind::kRange);
}

bool is_iterable(const Value& value) {
  return is_sequence(value) || value.sequence() != nullptr || value.iterator() != nullptr || value.loop() != nullptr;
}

// Also true for undefined values, because calling them gives the error message.
bool is_callable(const Value& value) {
  return value.function() != nullptr || value.loop() != nullptr || value.is_undefined();
}

bool is_lower(const Value& value) {
  return is_lower_text(print_text(value));
}

bool is_upper(const Value& value) {
  return is_upper_text(print_text(value));
}

bool is_escaped(const Value& value) {
  return value.is_markup();
}

bool is_filter(const Value& value) {
  return value.text() != nullptr && find_filter(to_utf8(*value.text())) != nullptr;
}

bool is_test(const Value& value) {
  return value.text() != nullptr && find_test(to_utf8(*value.text())) != nullptr;
}

struct NamedTest {
  std::string_view name;
  Test ask;
};

constexpr NamedTest kTests[] = {
    {"!=", compared<Operator{"!="}>},
    {"<", compared<Operator{"<"}>},
    {"<=", compared<Operator{"<="}>},
    {"==", compared<Operator{"=="}>},
    {">", compared<Operator{">"}>},
    {">=", compared<Operator{">="}>},
    {"boolean", alone<is_boolean>},
    {"callable", alone<is_callable>},
    {"defined", alone<is_defined>},
    {"divisibleby", is_divisible},
    {"eq", compared<Operator{"=="}>},
    {"equalto", compared<Operator{"=="}>},
    {"escaped", alone<is_escaped>},
    {"even", is_even},
    {"false", alone<is_falsehood>},
    {"filter", alone<is_filter>},
    {"float", alone<is_float>},
    {"ge", compared<Operator{">="}>},
    {"greaterthan", compared<Operator{">"}>},
    {"gt", compared<Operator{">"}>},
    {"in", compared<Operator{"in"}>},
    {"integer", alone<is_integer>},
    {"iterable", alone<is_iterable>},
    {"le", compared<Operator{"<="}>},
    {"lessthan", compared<Operator{"<"}>},
    {"lower", alone<is_lower>},
    {"lt", compared<Operator{"<"}>},
    {"mapping", alone<is_mapping>},
    {"ne", compared<Operator{"!="}>},
    {"none", alone<is_none>},
    {"number", alone<is_number>},
    {"odd", is_odd},
    {"sameas", is_same},
    {"sequence", alone<is_sequence>},
    {"string", alone<is_string>},
    {"test", alone<is_test>},
    {"true", alone<is_truth>},
    {"undefined", alone<is_undefined>},
    {"upper", alone<is_upper>},
};

}  // namespace

Test find_test(std::string_view name) {
  const auto* const found = std::ranges::find(kTests, name, &NamedTest::name);
  return found == std::end(kTests) ? nullptr : found->ask;
}

}  // namespace ballast::text::jinja
