// Functions that templates can call, and their arguments.
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

  /// Removes and returns the argument; nullopt if absent.
  std::optional<Value> take_named(std::string_view name);
};

struct Function {
  std::string name;
  std::function<Value(Interpreter&, const Arguments&)> call;
  bool is_macro = false;
  int depth = 1;  ///< value_depth() of its contents, plus one
};
Value make_function(Function function);

/// The state of a `for`, and the variable `loop` in it. Items are taken one by one: by the loop's condition, a later
/// one may depend on the body.
struct Loop {
  std::vector<Value> source;
  std::size_t next_source = 0;
  std::function<bool(const Value&)> accepts;  ///< empty: all
  std::vector<Value> items;                   ///< accepted so far
  std::size_t index = 0;                      ///< of the body's current item
  int nesting = 1;
  std::function<Value(const Value& items)> recurse;  ///< empty where the loop is not recursive
  int source_depth = 1;

  bool has(std::size_t item);  ///< reads ahead as far as necessary
  int depth() const { return source_depth; }
};

/// Binds arguments to a signature's names as in Python. A name that begins with '/' is positional-only.
class Bound {
 public:
  /// Fails unless the first `required` are given and no argument is left over.
  Bound(std::string_view function, const Arguments& arguments, std::initializer_list<const char*> names,
        std::size_t required = 0);

  /// Returns null if it was not given.
  const Value* find(std::size_t index) const { return given_[index] ? &values_[index] : nullptr; }
  const Value& operator[](std::size_t index) const { return values_[index]; }

  Value value(std::size_t index, Value fallback) const { return given_[index] ? values_[index] : std::move(fallback); }
  bool truth(std::size_t index, bool fallback) const;
  std::int64_t integer(std::size_t index, std::int64_t fallback) const;
  TextView text(std::size_t index, TextView fallback = {}) const;
  /// Returns a maximum of parts or characters; none or a negative number is no limit.
  std::size_t limit(std::size_t index) const;

 private:
  [[noreturn]] void wrong_type(std::size_t index, std::string_view wanted) const;

  std::string function_;
  std::vector<Value> values_;
  std::vector<bool> given_;
};

}  // namespace ballast::text::jinja

#endif  // BALLAST_TEXT_TEMPLATE_FUNCTION_H_
