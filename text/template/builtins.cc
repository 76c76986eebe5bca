#include "text/template/builtins.h"

#include <algorithm>
#include <charconv>

#include "files/text.h"
#include "text/template/interpreter.h"
#include "text/template/operators.h"
#include "text/template/values/budget.h"

namespace ballast::text::jinja {

Filter find_filter(std::string_view name) {
  for (const auto& group : {text_filters(), number_filters(), list_filters(), order_filters()}) {
    const auto found = std::ranges::find(group, name, &NamedFilter::name);
    if (found != group.end()) return found->run;
  }
  return nullptr;
}

Value Interpreter::filter(std::string_view name, const Value& input, const Arguments& arguments) {
  const Level level(*this);
  const Filter found = find_filter(name);
  if (found == nullptr) fail("there is no filter " + files::in_quotes(name));
  if (input.text() != nullptr) spend_reading(input.text()->size());
  return found(*this, input, arguments);
}

bool Interpreter::test(std::string_view name, const Value& input, const Arguments& arguments) {
  const Level level(*this);
  const Test found = find_test(name);
  if (found == nullptr) fail("there is no test " + files::in_quotes(name));
  if (input.text() != nullptr) spend_reading(input.text()->size());
  return found(*this, input, arguments);
}

AttributePath::AttributePath(const Value& attribute) {
  if (attribute.text() == nullptr) {
    if (!attribute.is_none()) parts_.push_back(attribute);
    return;
  }
  for (const TextView part : split_text(*attribute.text(), U".")) {
    const std::string name = to_utf8(part);
    std::int64_t index = 0;
    const auto read = std::from_chars(name.data(), name.data() + name.size(), index);
    const bool is_index = !name.starts_with('-') && read.ec == std::errc() && read.ptr == name.data() + name.size();
    parts_.push_back(is_index ? Value(index) : Value(part));
  }
}

Value AttributePath::of(const Value& item_with_it, const Value* fallback) const {
  Value value = item_with_it;
  for (const Value& part : parts_) {
    value = item(value, part);
    if (value.is_undefined() && fallback != nullptr && !fallback->is_none()) value = *fallback;
  }
  return value;
}

Value without_case(const Value& value) {
  return value.text() == nullptr ? value : Value(lower_text(*value.text()));
}

std::size_t length_of(const Value& value) {
  if (const Text* text = value.text()) return text->size();
  if (const Sequence* sequence = value.sequence()) return sequence->items.size();
  if (const Dict* dict = value.dict()) return dict->size();
  if (value.is_undefined()) return 0;
  if (Loop* loop = value.loop()) {
    loop->has(loop->source.size());
    return loop->items.size();
  }
  fail("a value of the type " + type_name(value) + " has no length");
}

std::vector<Value> reversible_items(const Value& value) {
  if (value.iterator() != nullptr) fail("what a filter gave can be gone through once, forwards; use the filter list");
  std::vector<Value> items = items_of(value);
  std::ranges::reverse(items);
  return items;
}

}  // namespace ballast::text::jinja
