// Names that are built into templates: filters, tests, methods of strings and dicts, functions.
#ifndef BALLAST_TEXT_TEMPLATE_BUILTINS_H_
#define BALLAST_TEXT_TEMPLATE_BUILTINS_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/template/function.h"
#include "text/template/values/value.h"

namespace ballast::text::jinja {

class Interpreter;

using Filter = Value (*)(Interpreter&, const Value& input, const Arguments&);
struct NamedFilter {
  std::string_view name;
  Filter run;
};
std::span<const NamedFilter> text_filters();
std::span<const NamedFilter> number_filters();
std::span<const NamedFilter> list_filters();
std::span<const NamedFilter> order_filters();
/// Returns null for an unknown name.
Filter find_filter(std::string_view name);

using Test = bool (*)(Interpreter&, const Value& input, const Arguments&);
Test find_test(std::string_view name);

using Method = Value (*)(Interpreter&, const Value& self, const Arguments&);
struct NamedMethod {
  std::string_view name;
  Method run;
};
std::span<const NamedMethod> text_methods();

/// Returns what Python's getattr finds: a method, an attribute of a loop or a namespace. Returns nullopt if there is
/// none; undefined if the sandbox forbids it.
std::optional<Value> own_attribute(const Value& object, const std::string& name);

const std::vector<std::pair<std::string, Value>>& global_functions();

/// An attribute argument of filters: "a.b.0", an integer, or none for the item itself.
class AttributePath {
 public:
  explicit AttributePath(const Value& attribute);
  Value of(const Value& item, const Value* fallback = nullptr) const;

 private:
  std::vector<Value> parts_;
};

/// Returns strings in lower case, other values unchanged.
Value without_case(const Value& value);
std::size_t length_of(const Value& value);
/// Returns the items of a value that can be iterated backwards, too.
std::vector<Value> reversible_items(const Value& value);

}  // namespace ballast::text::jinja

#endif  // BALLAST_TEXT_TEMPLATE_BUILTINS_H_
