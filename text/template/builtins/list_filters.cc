#include <algorithm>

#include "text/template/builtins.h"
#include "text/template/interpreter.h"
#include "text/template/operators.h"
#include "text/template/values/budget.h"
#include "text/template/values/print.h"

namespace ballast::text::jinja {
namespace {

using Result = Value;

Result default_value(Interpreter& /*interpreter*/, const Value& input, const Arguments& arguments) {
  const Bound bound("the filter default", arguments, {"default_value", "boolean"});
  const bool replaced = input.is_undefined() || (bound.truth(1, false) && !is_true(input));
  return replaced ? bound.value(0, Value(Text())) : input;
}

Result length(Interpreter& /*interpreter*/, const Value& input, const Arguments& arguments) {
  const Bound bound("the filter length", arguments, {});
  return Value::integer(length_of(input));
}

Result first(Interpreter& /*interpreter*/, const Value& input, const Arguments& arguments) {
  const Bound bound("the filter first", arguments, {});
  if (Iterator* iterator = input.iterator()) {
    if (iterator->next < iterator->items.size()) return iterator->items[iterator->next++];
  } else if (const std::vector<Value> items = items_of(input); !items.empty()) {
    return items.front();
  }
  return Value::undefined("there is no first item, since the sequence is empty");
}

Result last(Interpreter& /*interpreter*/, const Value& input, const Arguments& arguments) {
  const Bound bound("the filter last", arguments, {});
  const std::vector<Value> items = reversible_items(input);
  return items.empty() ? Value::undefined("there is no last item, since the sequence is empty") : items.front();
}

Result to_list(Interpreter& /*interpreter*/, const Value& input, const Arguments& arguments) {
  const Bound bound("the filter list", arguments, {});
  return Value::list(items_of(input));
}

Result items_filter(Interpreter& /*interpreter*/, const Value& input, const Arguments& arguments) {
  const Bound bound("the filter items", arguments, {});
  std::vector<Value> pairs;
  if (const Dict* dict = input.dict()) {
    for (const auto& [key, value] : dict->items()) pairs.push_back(Value::tuple({key, value}));
  } else if (!input.is_undefined()) {
    fail("the filter items takes a mapping, not a value of the type " + type_name(input));
  }
  return Value::iterator(std::move(pairs));
}

Result reverse(Interpreter& /*interpreter*/, const Value& input, const Arguments& arguments) {
  const Bound bound("the filter reverse", arguments, {});
  if (const Text* text = input.text()) return {Text(text->rbegin(), text->rend())};
  if (input.iterator() == nullptr) return Value::iterator(reversible_items(input));
  std::vector<Value> items = input.iterator()->take_rest();
  std::ranges::reverse(items);
  return Value::list(std::move(items));
}

Result join(Interpreter& /*interpreter*/, const Value& input, const Arguments& arguments) {
  const Bound bound("the filter join", arguments, {"d", "attribute"});
  const AttributePath path(bound.value(1, Value()));
  const Text separator = print_text(bound.value(0, Value(Text())));
  Text text;
  bool is_first = true;
  for (const Value& one : items_of(input)) {
    spend_characters(separator.size());
    if (!is_first) text += separator;
    text += print_text(path.of(one));
    is_first = false;
  }
  return {std::move(text)};
}

Result map(Interpreter& interpreter, const Value& input, const Arguments& given) {
  Arguments arguments = given;
  std::vector<Value> results;
  if (arguments.positional.empty()) {
    const std::optional<Value> attribute = arguments.take_named("attribute");
    const Value fallback = arguments.take_named("default").value_or(Value());
    if (!attribute || !arguments.named.empty()) fail("the filter map takes the name of a filter, or attribute=");
    const AttributePath path(*attribute);
    for (const Value& one : items_of(input)) results.push_back(path.of(one, &fallback));
    return Value::iterator(std::move(results));
  }
  if (arguments.positional[0].text() == nullptr) fail("the filter map takes the name of a filter as a string");
  const std::string name = to_utf8(*arguments.positional[0].text());
  arguments.positional.erase(arguments.positional.begin());
  for (const Value& one : items_of(input)) results.push_back(interpreter.filter(name, one, arguments));
  return Value::iterator(std::move(results));
}

// Implements select, reject, selectattr, rejectattr.
template <bool kKeeps, bool kByAttribute>
Result choose(Interpreter& interpreter, const Value& input, const Arguments& given) {
  std::vector<Value> chosen;
  if (!is_true(input)) return Value::iterator(std::move(chosen));
  Arguments arguments = given;
  std::vector<Value>& positional = arguments.positional;
  Value attribute;
  if (kByAttribute) {
    if (positional.empty()) fail("the filters selectattr and rejectattr take the name of an attribute");
    attribute = positional.front();
    positional.erase(positional.begin());
  }
  std::optional<std::string> test;
  if (!positional.empty()) {
    if (positional.front().text() == nullptr) fail("the name of a test must be a string");
    test = to_utf8(*positional.front().text());
    positional.erase(positional.begin());
  }
  const AttributePath path(attribute);
  for (const Value& one : items_of(input)) {
    const Value value = path.of(one);
    const bool holds = test ? interpreter.test(*test, value, arguments) : is_true(value);
    if (holds == kKeeps) chosen.push_back(one);
  }
  return Value::iterator(std::move(chosen));
}

Result batch(Interpreter& /*interpreter*/, const Value& input, const Arguments& arguments) {
  const Bound bound("the filter batch", arguments, {"linecount", "fill_with"}, 1);
  const std::int64_t count = bound.integer(0, 1);
  if (count < 1) fail("the filter batch takes a positive number of items");
  std::vector<Value> lines;
  std::vector<Value> line;
  for (const Value& one : items_of(input)) {
    if (static_cast<std::int64_t>(line.size()) == count) lines.push_back(Value::list(std::exchange(line, {})));
    line.push_back(one);
  }
  if (!line.empty()) {
    if (bound.find(1) != nullptr && !bound[1].is_none()) {
      spend_steps(static_cast<std::size_t>(count));
      line.resize(static_cast<std::size_t>(count), bound[1]);
    }
    lines.push_back(Value::list(std::move(line)));
  }
  return Value::iterator(std::move(lines));
}

Result slice_filter(Interpreter& /*interpreter*/, const Value& input, const Arguments& arguments) {
  const Bound bound("the filter slice", arguments, {"slices", "fill_with"}, 1);
  const std::int64_t given = bound.integer(0, 1);
  if (given < 1) fail("the filter slice takes a positive number of slices");
  const auto count = static_cast<std::size_t>(given);
  spend_steps(count);
  const std::vector<Value> items = items_of(input);
  const std::size_t each = items.size() / count;
  const std::size_t longer = items.size() % count;
  const bool fills = bound.find(1) != nullptr && !bound[1].is_none();
  std::vector<Value> slices;
  auto at = items.begin();
  for (std::size_t i = 0; i < count; ++i) {
    const auto end = at + static_cast<std::ptrdiff_t>(each + (i < longer ? 1 : 0));
    std::vector<Value> slice(at, end);
    if (fills && i >= longer) slice.push_back(bound[1]);
    slices.push_back(Value::list(std::move(slice)));
    at = end;
  }
  return Value::iterator(std::move(slices));
}

Result attribute_filter(Interpreter& /*interpreter*/, const Value& input, const Arguments& arguments) {
  const Bound bound("the filter attr", arguments, {"name"}, 1);
  const std::string name = to_utf8(bound.text(0));
  if (const auto* missing = input.get<Undefined>()) fail(*missing->problem);
  return own_attribute(input, name).value_or(Value::undefined("there is no attribute '" + name + "'"));
}

constexpr NamedFilter kListFilters[] = {
    {"attr", attribute_filter},
    {"batch", batch},
    {"count", length},
    {"d", default_value},
    {"default", default_value},
    {"first", first},
    {"items", items_filter},
    {"join", join},
    {"last", last},
    {"length", length},
    {"list", to_list},
    {"map", map},
    {"reject", choose<false, false>},
    {"rejectattr", choose<false, true>},
    {"reverse", reverse},
    {"select", choose<true, false>},
    {"selectattr", choose<true, true>},
    {"slice", slice_filter},
};

}  // namespace

std::span<const NamedFilter> list_filters() {
  return kListFilters;
}

}  // namespace ballast::text::jinja
