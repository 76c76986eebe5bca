// Attributes, items and slices.
#include <algorithm>
#include <limits>
#include <optional>

#include "text/template/builtins.h"
#include "text/template/operators.h"

namespace ballast::text::jinja {
namespace {

using Integer = std::int64_t;

Value no_attribute(const Value& object, const std::string& name) {
  const std::string owner = object.is_none() ? "None" : type_name(object) + " object";
  return Value::undefined("'" + owner + "' has no attribute '" + name + "'");
}

// Returns object[key] as in Python; nullopt for a TypeError or a LookupError.
std::optional<Value> python_item(const Value& object, const Value& key) {
  if (const Dict* dict = object.dict()) {
    if (key.dict() != nullptr || (key.sequence() != nullptr && key.sequence()->kind == Sequence::Kind::kList)) {
      return std::nullopt;
    }
    const Value* found = dict->find(key);
    return found == nullptr ? std::nullopt : std::optional<Value>(*found);
  }
  const Sequence* sequence = object.sequence();
  const bool has_places = sequence != nullptr && sequence->kind <= Sequence::Kind::kRange;
  if (!key.is_integral() || (object.text() == nullptr && !has_places)) return std::nullopt;
  const auto size = static_cast<Integer>(has_places ? sequence->items.size() : object.text()->size());
  const Integer given = key.integral();
  if (given >= size || given < -size) return std::nullopt;
  const auto index = static_cast<std::size_t>(given < 0 ? given + size : given);
  if (has_places) return sequence->items[index];
  return Value(Text(1, (*object.text())[index]));
}

struct SliceRange {
  Integer first = 0;
  Integer end = 0;
  Integer step = 1;
};

Integer clamped(const Value& bound, Integer fallback, Integer size, Integer least, Integer most) {
  if (bound.is_none()) return fallback;
  const Integer given = bound.integral();
  return std::clamp(given < 0 ? given + size : given, least, most);
}

SliceRange slice_range(Integer size, const Value& begin, const Value& end, const Value& step) {
  SliceRange range;
  if (!step.is_none()) range.step = step.integral();
  if (range.step == 0) fail("a slice has the step 0");
  // Larger steps are equivalent to one more than the length.
  range.step = std::clamp(range.step, -size - 1, size + 1);
  const bool forward = range.step > 0;
  range.first = forward ? clamped(begin, 0, size, 0, size) : clamped(begin, size - 1, size, -1, size - 1);
  range.end = forward ? clamped(end, size, size, 0, size) : clamped(end, -1, size, -1, size - 1);
  return range;
}

template <typename Visit>
void for_each_place(const SliceRange& range, const Visit& visit) {
  for (Integer at = range.first; range.step > 0 ? at < range.end : at > range.end; at += range.step) {
    visit(static_cast<std::size_t>(at));
  }
}

}  // namespace

Value attribute(const Value& object, const std::string& name) {
  if (const auto* missing = object.get<Undefined>()) fail(*missing->problem);
  if (name.starts_with("__") && name.ends_with("__")) {
    return Value::undefined("the attribute " + name + " is not for templates");
  }
  if (std::optional<Value> own = own_attribute(object, name)) return *own;
  if (const std::optional<Value> held = python_item(object, Value::text(name))) return *held;
  return no_attribute(object, name);
}

Value item(const Value& object, const Value& key) {
  if (const auto* missing = object.get<Undefined>()) fail(*missing->problem);
  if (const std::optional<Value> held = python_item(object, key)) return *held;
  if (key.text() == nullptr) return Value::undefined(type_name(object) + " object has no such element");
  const std::string name = to_utf8(*key.text());
  if (std::optional<Value> own = own_attribute(object, name)) return *own;
  return no_attribute(object, name);
}

Value slice(const Value& object, const Value& begin, const Value& end, const Value& step) {
  if (const auto* missing = object.get<Undefined>()) fail(*missing->problem);
  const Sequence* sequence = object.sequence();
  const bool has_places = sequence != nullptr && sequence->kind <= Sequence::Kind::kRange;
  const auto is_bound = [](const Value& value) { return value.is_none() || value.is_integral(); };
  if ((object.text() == nullptr && !has_places) || !is_bound(begin) || !is_bound(end) || !is_bound(step)) {
    fail("a value of the type " + type_name(object) + " has no such slice");
  }
  if (has_places) {
    std::vector<Value> items;
    for_each_place(slice_range(static_cast<Integer>(sequence->items.size()), begin, end, step),
                   [&](std::size_t at) { items.push_back(sequence->items[at]); });
    return make_sequence(sequence->kind, std::move(items));
  }
  Text text;
  for_each_place(slice_range(static_cast<Integer>(object.text()->size()), begin, end, step),
                 [&](std::size_t at) { text += (*object.text())[at]; });
  return {std::move(text)};
}

}  // namespace ballast::text::jinja
