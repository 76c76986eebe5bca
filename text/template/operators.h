// Python's operators for values.
#ifndef BALLAST_TEXT_TEMPLATE_OPERATORS_H_
#define BALLAST_TEXT_TEMPLATE_OPERATORS_H_

#include <string_view>
#include <vector>

#include "text/template/values/value.h"

namespace ballast::text::jinja {

class Interpreter;

/// `name`: + - * / // % **.
Value arithmetic(Interpreter& interpreter, std::string_view name, const Value& left, const Value& right);
Value signed_number(const Value& value, bool is_negative);
/// `name`: == != < <= > >= in "not in".
bool compare(std::string_view name, const Value& left, const Value& right);
bool contains(const Value& container, const Value& item);

/// Returns the items of a loop over `value`; uses up an iterator. Fails for values that cannot be iterated.
std::vector<Value> items_of(const Value& value);

/// Return object.name and object[key] in the sandbox: undefined if missing.
Value attribute(const Value& object, const std::string& name);
Value item(const Value& object, const Value& key);
/// Returns object[begin:end:step]; none for omitted parts.
Value slice(const Value& object, const Value& begin, const Value& end, const Value& step);

}  // namespace ballast::text::jinja

#endif  // BALLAST_TEXT_TEMPLATE_OPERATORS_H_
