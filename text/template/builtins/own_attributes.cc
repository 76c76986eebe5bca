// Methods of dicts and lists, attributes of loops and namespaces.
#include <algorithm>
#include <array>

#include "text/template/builtins.h"
#include "text/template/interpreter.h"
#include "text/template/operators.h"
#include "text/template/values/budget.h"

namespace ballast::text::jinja {
namespace {

using Told = Value;

Told dict_get(Interpreter& /*interpreter*/, const Value& self, const Arguments& arguments) {
  const Bound bound("get", arguments, {"/key", "/default"}, 1);
  const Value* found = self.dict()->find(bound[0]);
  return found != nullptr ? *found : bound.value(1, Value());
}

// The views of a dict.
template <Sequence::Kind kKind>
Told dict_view(Interpreter& /*interpreter*/, const Value& self, const Arguments& arguments) {
  const Bound bound("a view of a dict", arguments, {});
  std::vector<Value> items;
  for (const auto& [key, value] : self.dict()->items()) {
    if (kKind == Sequence::Kind::kKeys) items.push_back(key);
    if (kKind == Sequence::Kind::kValues) items.push_back(value);
    if (kKind == Sequence::Kind::kItems) items.push_back(Value::tuple({key, value}));
  }
  return make_sequence(kKind, std::move(items));
}

Told itself(Interpreter& /*interpreter*/, const Value& self, const Arguments& arguments) {
  const Bound bound("copy", arguments, {});
  return self;
}

Told list_index(Interpreter& /*interpreter*/, const Value& self, const Arguments& arguments) {
  const Bound bound("index", arguments, {"/value"}, 1);
  const std::vector<Value>& items = self.sequence()->items;
  const auto found = std::ranges::find_if(items, [&](const Value& one) { return equal(one, bound[0]); });
  if (found == items.end()) fail("index: the value is not in the list");
  return Value::integer(static_cast<std::size_t>(found - items.begin()));
}

Told list_count(Interpreter& /*interpreter*/, const Value& self, const Arguments& arguments) {
  const Bound bound("count", arguments, {"/value"}, 1);
  const auto matches = [&](const Value& one) { return equal(one, bound[0]); };
  return Value::integer(static_cast<std::size_t>(std::ranges::count_if(self.sequence()->items, matches)));
}

Told loop_cycle(Interpreter& /*interpreter*/, const Value& self, const Arguments& arguments) {
  if (arguments.positional.empty() || !arguments.named.empty()) fail("loop.cycle takes values");
  return arguments.positional[self.loop()->index % arguments.positional.size()];
}

constexpr NamedMethod kDictMethods[] = {
    {"copy", itself},
    {"get", dict_get},
    {"items", dict_view<Sequence::Kind::kItems>},
    {"keys", dict_view<Sequence::Kind::kKeys>},
    {"values", dict_view<Sequence::Kind::kValues>},
};
constexpr NamedMethod kListMethods[] = {{"copy", itself}, {"count", list_count}, {"index", list_index}};
constexpr NamedMethod kTupleMethods[] = {{"count", list_count}, {"index", list_index}};
constexpr NamedMethod kLoopMethods[] = {{"cycle", loop_cycle}};

// Methods that change a value, which is allowed only for namespaces.
constexpr std::array<std::string_view, 5> kDictChanges = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr std::array<std::string_view, 8> kListChanges = {"append", "clear",  "extend",  "insert",
                                                          "pop",    "remove", "reverse", "sort"};

std::optional<Value> bound_method(std::span<const NamedMethod> methods, const Value& self, std::string_view name) {
  const auto found = std::ranges::find(methods, name, &NamedMethod::name);
  if (found == methods.end()) return std::nullopt;
  return make_function({.name = std::string(name),
                        .call =
                            [self, run = found->run](Interpreter& interpreter, const Arguments& arguments) {
                              if (self.text() != nullptr) spend_reading(self.text()->size());
                              return run(interpreter, self, arguments);
                            },
                        .depth = value_depth(self) + 1});
}

std::optional<Value> forbidden(std::span<const std::string_view> changes, std::string_view name) {
  if (std::ranges::find(changes, name) == changes.end()) return std::nullopt;
  return Value::undefined("a template cannot change a value with ." + std::string(name));
}

std::optional<Value> sequence_attribute(const Value& object, std::string_view name) {
  if (object.sequence()->kind == Sequence::Kind::kList) {
    if (std::optional<Value> change = forbidden(kListChanges, name)) return change;
    return bound_method(kListMethods, object, name);
  }
  if (object.sequence()->kind <= Sequence::Kind::kRange) return bound_method(kTupleMethods, object, name);
  return std::nullopt;
}

std::optional<Value> loop_length_attribute(Loop& loop, std::string_view name) {
  if (name != "length" && name != "revindex" && name != "revindex0") return std::nullopt;
  loop.has(loop.source.size());
  const std::size_t length = loop.items.size();
  if (name == "length") return Value::integer(length);
  return Value(static_cast<std::int64_t>(length - loop.index) - (name == "revindex0" ? 1 : 0));
}

std::optional<Value> loop_attribute(const Value& object, std::string_view name) {
  Loop& loop = *object.loop();
  if (name == "index") return Value::integer(loop.index + 1);
  if (name == "index0") return Value::integer(loop.index);
  if (name == "first") return Value(loop.index == 0);
  if (name == "last") return Value(!loop.has(loop.index + 1));
  if (name == "depth") return Value(std::int64_t{loop.nesting});
  if (name == "depth0") return Value(std::int64_t{loop.nesting} - 1);
  if (name == "previtem") {
    return loop.index > 0 ? loop.items[loop.index - 1] : Value::undefined("there is no previous item");
  }
  if (name == "nextitem") {
    return loop.has(loop.index + 1) ? loop.items[loop.index + 1] : Value::undefined("there is no next item");
  }
  if (std::optional<Value> length = loop_length_attribute(loop, name)) return length;
  return bound_method(kLoopMethods, object, name);
}

}  // namespace

std::optional<Value> own_attribute(const Value& object, const std::string& name) {
  if (object.is_markup() && (name == "replace" || name == "join" || name == "format")) {
    return Value::undefined("." + name + " after the filter safe or escape is not supported");
  }
  if (object.text() != nullptr) return bound_method(text_methods(), object, name);
  if (object.sequence() != nullptr) return sequence_attribute(object, name);
  if (object.loop() != nullptr) return loop_attribute(object, name);
  if (object.dict() != nullptr) {
    if (std::optional<Value> change = forbidden(kDictChanges, name)) return change;
    return bound_method(kDictMethods, object, name);
  }
  if (const Namespace* names = object.names()) {
    const Value* found = names->attributes.find(name);
    if (found != nullptr) return *found;
  }
  const Function* function = object.function();
  if (function != nullptr && function->is_macro && name == "name") return Value::text(function->name);
  return std::nullopt;
}

}  // namespace ballast::text::jinja
