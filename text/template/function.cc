#include "text/template/function.h"

#include <algorithm>
#include <memory>

namespace ballast::text::jinja {

std::optional<Value> Arguments::take_named(std::string_view name) {
  const auto found = std::ranges::find(named, name, [](const auto& argument) { return argument.first; });
  if (found == named.end()) return std::nullopt;
  Value value = std::move(found->second);
  named.erase(found);
  return value;
}

Value make_function(Function function) {
  if (function.depth > kMostValueDepth) fail("nests values too deeply");
  return {std::make_shared<const Function>(std::move(function))};
}

bool Loop::has(std::size_t item) {
  while (items.size() <= item && next_source < source.size()) {
    const Value& candidate = source[next_source++];
    if (!accepts || accepts(candidate)) items.push_back(candidate);
  }
  return item < items.size();
}

Bound::Bound(std::string_view function, const Arguments& arguments, std::initializer_list<const char*> names,
             std::size_t required)
    : function_(function), values_(names.size()), given_(names.size(), false) {
  if (arguments.positional.size() > names.size()) {
    fail(function_ + " takes at most " + std::to_string(names.size()) + " arguments");
  }
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) {
    values_[i] = arguments.positional[i];
    given_[i] = true;
  }
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) fail(function_ + " has no argument " + name);
    const auto index = static_cast<std::size_t>(found - names.begin());
    if (given_[index]) fail(function_ + " is given its argument " + name + " twice");
    values_[index] = value;
    given_[index] = true;
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (!given_[i]) fail(function_ + " needs " + std::to_string(required) + " arguments");
  }
}

bool Bound::truth(std::size_t index, bool fallback) const {
  return given_[index] ? is_true(values_[index]) : fallback;
}

std::int64_t Bound::integer(std::size_t index, std::int64_t fallback) const {
  if (!given_[index]) return fallback;
  if (!values_[index].is_integral()) wrong_type(index, "int");
  return values_[index].integral();
}

TextView Bound::text(std::size_t index, TextView fallback) const {
  if (!given_[index]) return fallback;
  const Text* text = values_[index].text();
  if (text == nullptr) wrong_type(index, "str");
  return *text;
}

std::size_t Bound::limit(std::size_t index) const {
  const std::int64_t most = integer(index, -1);
  return most < 0 ? kNoLimit : static_cast<std::size_t>(most);
}

void Bound::wrong_type(std::size_t index, std::string_view wanted) const {
  if (const auto* missing = values_[index].get<Undefined>()) fail(*missing->problem);
  fail(function_ + ": argument " + std::to_string(index + 1) + " must be of the type " + std::string(wanted) +
       ", is of " + type_name(values_[index]));
}

}  // namespace ballast::text::jinja
