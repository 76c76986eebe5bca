// The values of templates: Python's values, as far as templates can use them.
#ifndef BALLAST_TEXT_TEMPLATE_VALUES_VALUE_H_
#define BALLAST_TEXT_TEMPLATE_VALUES_VALUE_H_

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "text/template/values/marked_text.h"

namespace ballast::text::jinja {

/// An error, to which the line of the template is added.
class TemplateProblem : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
[[noreturn]] void fail(const std::string& problem);

struct None {};
/// The value of a missing name or attribute; `problem` names it.
struct Undefined {
  std::shared_ptr<const std::string> problem;
};

class Value;
struct Sequence;
class Dict;
struct Iterator;
struct Loop;
struct Function;
class Namespace;

/// Immutable except for namespaces, iterators and loops; copies share large contents.
class Value {
 public:
  using Data = std::variant<None, Undefined, bool, std::int64_t, double, std::shared_ptr<const Text>,
                            std::shared_ptr<const Sequence>, std::shared_ptr<const Dict>, std::shared_ptr<Iterator>,
                            std::shared_ptr<Loop>, std::shared_ptr<const Function>, Namespace*>;

  Value() = default;
  Value(bool value) : data_(value) {}          // NOLINT(google-explicit-constructor)
  Value(std::int64_t value) : data_(value) {}  // NOLINT(google-explicit-constructor)
  Value(double value) : data_(value) {}        // NOLINT(google-explicit-constructor)
  Value(Text text);                            // NOLINT(google-explicit-constructor)
  Value(TextView text) : Value(Text(text)) {}  // NOLINT(google-explicit-constructor)
  Value(std::shared_ptr<const Sequence> sequence)
      : data_(std::move(sequence)) {}                                        // NOLINT(google-explicit-constructor)
  Value(Dict dict);                                                          // NOLINT(google-explicit-constructor)
  Value(std::shared_ptr<Iterator> iterator) : data_(std::move(iterator)) {}  // NOLINT(google-explicit-constructor)
  Value(std::shared_ptr<Loop> loop) : data_(std::move(loop)) {}              // NOLINT(google-explicit-constructor)
  Value(std::shared_ptr<const Function> function)
      : data_(std::move(function)) {}        // NOLINT(google-explicit-constructor)
  Value(Namespace* names) : data_(names) {}  // NOLINT(google-explicit-constructor)
  Value(const void*) = delete;               // would be converted to bool

  static Value integer(std::size_t value) { return {static_cast<std::int64_t>(value)}; }
  static Value text(std::string_view utf8) { return {make_text(utf8)}; }
  static Value undefined(std::string problem);
  /// Returns the value of the filters safe and escape: `+` escapes text that is joined to it.
  static Value markup(Text text);
  static Value list(std::vector<Value> items);
  static Value tuple(std::vector<Value> items);
  static Value iterator(std::vector<Value> items);

  const Data& data() const { return data_; }
  template <typename Type>
  const Type* get() const {
    return std::get_if<Type>(&data_);
  }
  /// Returns null for another type.
  const Text* text() const { return pointee<Text>(); }
  const Sequence* sequence() const { return pointee<Sequence>(); }
  const Dict* dict() const { return pointee<Dict>(); }
  const Function* function() const { return pointee<Function>(); }
  Iterator* iterator() const;
  Loop* loop() const;
  Namespace* names() const;

  bool is_markup() const { return is_markup_; }
  bool is_none() const { return get<None>() != nullptr; }
  bool is_undefined() const { return get<Undefined>() != nullptr; }
  bool is_bool() const { return get<bool>() != nullptr; }
  bool is_float() const { return get<double>() != nullptr; }
  /// Returns whether the value is an integer or a truth value, which counts as one in Python.
  bool is_integral() const { return is_bool() || get<std::int64_t>() != nullptr; }
  bool is_number() const { return is_integral() || is_float(); }
  std::int64_t integral() const;  ///< is_integral()
  double number() const;          ///< is_number()

 private:
  template <typename Type>
  const Type* pointee() const {
    const auto* const held = std::get_if<std::shared_ptr<const Type>>(&data_);
    return held == nullptr ? nullptr : held->get();
  }

  Data data_;
  bool is_markup_ = false;
};

/// The limit of nested values.
inline constexpr int kMostValueDepth = 200;

/// A value with a length and an order.
struct Sequence {
  enum class Kind { kList, kTuple, kRange, kKeys, kValues, kItems };
  Kind kind = Kind::kList;
  std::vector<Value> items;
  int depth = 1;

  Sequence(Kind which, std::vector<Value> members);
};
Value make_sequence(Sequence::Kind kind, std::vector<Value> items);

/// Items in the order of insertion.
class Dict {
 public:
  void set(const Value& key, Value value);
  void set(std::string_view key, Value value) { set(Value::text(key), std::move(value)); }
  const Value* find(const Value& key) const;  ///< null if missing
  const Value* find(std::string_view key) const;
  const std::vector<std::pair<Value, Value>>& items() const { return items_; }
  std::size_t size() const { return items_.size(); }
  int depth() const { return depth_; }

 private:
  std::vector<std::pair<Value, Value>> items_;
  std::unordered_map<std::string, std::size_t> places_;  // by hash_key()
  int depth_ = 1;
};

/// The result of filters such as `map`, which can be iterated once.
struct Iterator {
  std::vector<Value> items;
  std::size_t next = 0;
  int depth = 1;

  std::vector<Value> take_rest();
};

/// The only object that templates can change. Lives as long as the rendering.
class Namespace {
 public:
  Dict attributes;
};

/// Returns Python's name of the type: "str", "dict", "NoneType".
std::string type_name(const Value& value);
bool is_true(const Value& value);
/// Returns Python's `is`; strings are the same only if one is a copy of the other.
bool is_same_object(const Value& left, const Value& right);
bool equal(const Value& left, const Value& right);
/// Returns left < right; fails for types without an order.
bool less(const Value& left, const Value& right);
/// Returns a string that is equal for equal keys; fails for lists and dicts.
std::string hash_key(const Value& value);
int value_depth(const Value& value);

}  // namespace ballast::text::jinja

#endif  // BALLAST_TEXT_TEMPLATE_VALUES_VALUE_H_
