// What templates can call, and how arguments reach it.
#ifndef BALLAST_TEXT_TEMPLATE_FUNCTION_H_
#define BALLAST_TEXT_TEMPLATE_FUNCTION_H_

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/template/values/value.h"

namespace ballast::text::jinja {

class Interpreter;

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  /// Takes it out; null when it is not there.
  std::optional<Value> take_named(std::string_view name);
};

struct Function {
  std::string name;
  std::function<Value(Interpreter&, const Arguments&)> call;
  bool is_macro = false;
  int depth = 1;  ///< value_depth() of what it holds, and one
};
Value make_function(Function function);

/// The state of a `for`, and the variable `loop` in it. Items are taken one by one: a later one may depend, by the
/// loop's own condition, on what the body did.
struct Loop {
  std::vector<Value> source;
  std::size_t next_source = 0;
  std::function<bool(const Value&)> accepts;  ///< empty: all
  std::vector<Value> items;                   ///< accepted so far
  std::size_t index = 0;                      ///< of the item that the body is at
  int nesting = 1;
  std::function<Value(const Value& items)> recurse;  ///< empty where the loop is not recursive
  int source_depth = 1;

  bool has(std::size_t item);  ///< looks as far ahead as it must
  int depth() const { return source_depth; }
};

/// Arguments by a signature's names, in Python's way. A name that begins with '/' can be given by position only.
class Bound {
 public:
  /// Fails unless the first `required` are there and nothing is left over.
  Bound(std::string_view function, const Arguments& arguments, std::initializer_list<const char*> names,
        std::size_t required = 0);

  /// Null when it was not given.
  const Value* find(std::size_t index) const { return given_[index] ? &values_[index] : nullptr; }
  const Value& operator[](std::size_t index) const { return values_[index]; }

  Value value(std::size_t index, Value fallback) const { return given_[index] ? values_[index] : std::move(fallback); }
  bool truth(std::size_t index, bool fallback) const;
  std::int64_t integer(std::size_t index, std::int64_t fallback) const;
  TextView text(std::size_t index, TextView fallback = {}) const;
  /// A number of parts or characters at most; none or a negative one is no limit.
  std::size_t limit(std::size_t index) const;

 private:
  [[noreturn]] void wrong_type(std::size_t index, std::string_view wanted) const;

  std::string function_;
  std::vector<Value> values_;
  std::vector<bool> given_;
};

}  // namespace ballast::text::jinja

#endif  // BALLAST_TEXT_TEMPLATE_FUNCTION_H_
