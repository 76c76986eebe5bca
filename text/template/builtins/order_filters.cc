// Filters that sort or find equal values.
#include <algorithm>
#include <unordered_set>

#include "text/template/builtins.h"
#include "text/template/operators.h"

namespace ballast::text::jinja {
namespace {

struct Keyed {
  Value key;
  Value value;
};

void sort_keyed(std::vector<Keyed>& items, bool is_reverse) {
  std::ranges::stable_sort(items, [&](const Keyed& left, const Keyed& right) {
    return is_reverse ? less(right.key, left.key) : less(left.key, right.key);
  });
}

Value values_of(std::vector<Keyed> items) {
  std::vector<Value> values;
  for (Keyed& one : items) values.push_back(std::move(one.value));
  return Value::list(std::move(values));
}

Value key_of(const Value& value, bool case_sensitive) {
  return case_sensitive ? value : without_case(value);
}

// Parses "a,b.c": sorts by the first, then by the second.
std::vector<AttributePath> paths_of(const Value& attribute) {
  std::vector<AttributePath> paths;
  if (attribute.text() == nullptr) {
    paths.emplace_back(attribute);
  } else {
    for (const TextView part : split_text(*attribute.text(), U",")) paths.emplace_back(Value(part));
  }
  return paths;
}

Value sort(Interpreter& /*interpreter*/, const Value& input, const Arguments& arguments) {
  const Bound bound("the filter sort", arguments, {"reverse", "case_sensitive", "attribute"});
  const std::vector<AttributePath> paths = paths_of(bound.value(2, Value()));
  std::vector<Keyed> items;
  for (Value& one : items_of(input)) {
    std::vector<Value> keys;
    for (const AttributePath& path : paths) keys.push_back(key_of(path.of(one), bound.truth(1, false)));
    items.push_back({Value::list(std::move(keys)), std::move(one)});
  }
  sort_keyed(items, bound.truth(0, false));
  return values_of(std::move(items));
}

Value dict_sort(Interpreter& /*interpreter*/, const Value& input, const Arguments& arguments) {
  const Bound bound("the filter dictsort", arguments, {"case_sensitive", "by", "reverse"});
  const Dict* dict = input.dict();
  if (dict == nullptr) fail("the filter dictsort takes a dict, not a value of the type " + type_name(input));
  const TextView by = bound.text(1, U"key");
  const bool by_value = same_text(by, U"value");
  if (!by_value && !same_text(by, U"key")) fail("the filter dictsort sorts by \"key\" or \"value\"");
  std::vector<Keyed> items;
  for (const auto& [key, value] : dict->items()) {
    items.push_back({key_of(by_value ? value : key, bound.truth(0, false)), Value::tuple({key, value})});
  }
  sort_keyed(items, bound.truth(2, false));
  return values_of(std::move(items));
}

Value unique(Interpreter& /*interpreter*/, const Value& input, const Arguments& arguments) {
  const Bound bound("the filter unique", arguments, {"case_sensitive", "attribute"});
  const AttributePath path(bound.value(1, Value()));
  std::unordered_set<std::string> seen;
  std::vector<Value> kept;
  for (const Value& one : items_of(input)) {
    if (seen.insert(hash_key(key_of(path.of(one), bound.truth(0, false)))).second) kept.push_back(one);
  }
  return Value::iterator(std::move(kept));
}

template <bool kLargest>
Value extreme(Interpreter& /*interpreter*/, const Value& input, const Arguments& arguments) {
  const Bound bound("the filters min and max", arguments, {"case_sensitive", "attribute"});
  const AttributePath path(bound.value(1, Value()));
  std::optional<Keyed> best;
  for (const Value& one : items_of(input)) {
    Value key = key_of(path.of(one), bound.truth(0, false));
    if (!best || (kLargest ? less(best->key, key) : less(key, best->key))) best = {std::move(key), one};
  }
  return best ? best->value : Value::undefined("there is no such item, since the sequence is empty");
}

Value group_by(Interpreter& /*interpreter*/, const Value& input, const Arguments& arguments) {
  const Bound bound("the filter groupby", arguments, {"attribute", "default", "case_sensitive"}, 1);
  const AttributePath path(bound[0]);
  const Value fallback = bound.value(1, Value());
  std::vector<Keyed> items;
  for (Value& one : items_of(input)) {
    Value key = key_of(path.of(one, &fallback), bound.truth(2, false));
    items.push_back({std::move(key), std::move(one)});
  }
  sort_keyed(items, false);
  std::vector<Value> groups;
  for (std::size_t begin = 0, end = 0; begin < items.size(); begin = end) {
    std::vector<Value> members;
    for (end = begin; end < items.size() && equal(items[end].key, items[begin].key); ++end) {
      members.push_back(items[end].value);
    }
    if (end == begin) fail("the filter groupby meets a key that is not equal to itself");
    const Value key = path.of(members.front(), &fallback);
    groups.push_back(Value::tuple({key, Value::list(std::move(members))}));
  }
  return Value::list(std::move(groups));
}

constexpr NamedFilter kOrderFilters[] = {
    {"dictsort", dict_sort}, {"groupby", group_by}, {"max", extreme<true>},
    {"min", extreme<false>}, {"sort", sort},        {"unique", unique},
};

}  // namespace

std::span<const NamedFilter> order_filters() {
  return kOrderFilters;
}

}  // namespace ballast::text::jinja
