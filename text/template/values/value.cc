#include "text/template/values/value.h"

#include <algorithm>
#include <cmath>

#include "text/template/function.h"
#include "text/template/values/budget.h"

namespace ballast::text::jinja {
namespace {

int deepened(int depth) {
  if (depth >= kMostValueDepth) fail("nests values too deeply");
  return depth + 1;
}

bool equal_items(const Sequence& left, const Sequence& right) {
  return left.kind == right.kind && std::ranges::equal(left.items, right.items, equal);
}

bool equal_dicts(const Dict& left, const Dict& right) {
  return left.size() == right.size() && std::ranges::all_of(left.items(), [&](const auto& item) {
           const Value* other = right.find(item.first);
           return other != nullptr && equal(item.second, *other);
         });
}

bool less_sequence(const Sequence& left, const Sequence& right) {
  for (std::size_t i = 0; i < left.items.size() && i < right.items.size(); ++i) {
    if (!equal(left.items[i], right.items[i])) return less(left.items[i], right.items[i]);
  }
  return left.items.size() < right.items.size();
}

bool is_list_or_tuple(const Sequence& sequence) {
  return sequence.kind == Sequence::Kind::kList || sequence.kind == Sequence::Kind::kTuple;
}

std::string number_key(const Value& value) {
  if (value.is_integral()) return "i" + std::to_string(value.integral());
  const double number = value.number();
  if (std::trunc(number) == number && std::abs(number) < 0x1p62) {
    return "i" + std::to_string(static_cast<std::int64_t>(number));
  }
  return "f" + std::to_string(number) + std::to_string(std::hash<double>()(number));
}

std::string tuple_key(const Sequence& tuple) {
  std::string key = "t";
  for (const Value& item : tuple.items) {
    const std::string part = hash_key(item);
    spend_characters(part.size());
    key += std::to_string(part.size()) + ":" + part;
  }
  return key;
}

}  // namespace

void fail(const std::string& problem) {
  throw TemplateProblem(problem);
}

Value::Value(Text text) {
  spend_characters(text.size());
  data_ = std::make_shared<const Text>(std::move(text));
}

Value::Value(Dict dict) : data_(std::make_shared<const Dict>(std::move(dict))) {}

Value Value::undefined(std::string problem) {
  Value value;
  value.data_ = Undefined{std::make_shared<const std::string>(std::move(problem))};
  return value;
}

Value Value::markup(Text text) {
  Value value(std::move(text));
  value.is_markup_ = true;
  return value;
}

Value Value::list(std::vector<Value> items) {
  return make_sequence(Sequence::Kind::kList, std::move(items));
}

Value Value::tuple(std::vector<Value> items) {
  return make_sequence(Sequence::Kind::kTuple, std::move(items));
}

Value Value::iterator(std::vector<Value> items) {
  // Counts as deep as a list of the same items, so that nested iterators are limited.
  const Sequence checked(Sequence::Kind::kList, items);
  return {std::make_shared<Iterator>(Iterator{std::move(items), 0, checked.depth})};
}

Iterator* Value::iterator() const {
  const auto* const held = get<std::shared_ptr<Iterator>>();
  return held == nullptr ? nullptr : held->get();
}

Loop* Value::loop() const {
  const auto* const held = get<std::shared_ptr<Loop>>();
  return held == nullptr ? nullptr : held->get();
}

Namespace* Value::names() const {
  Namespace* const* const held = get<Namespace*>();
  return held == nullptr ? nullptr : *held;
}

std::int64_t Value::integral() const {
  return is_bool() ? static_cast<std::int64_t>(std::get<bool>(data_)) : std::get<std::int64_t>(data_);
}

double Value::number() const {
  return is_float() ? std::get<double>(data_) : static_cast<double>(integral());
}

Sequence::Sequence(Kind which, std::vector<Value> members) : kind(which), items(std::move(members)) {
  spend_steps(items.size());
  for (const Value& item : items) depth = std::max(depth, deepened(value_depth(item)));
}

Value make_sequence(Sequence::Kind kind, std::vector<Value> items) {
  return Value(std::make_shared<const Sequence>(kind, std::move(items)));
}

void Dict::set(const Value& key, Value value) {
  spend_steps(1);
  depth_ = std::max({depth_, deepened(value_depth(key)), deepened(value_depth(value))});
  const auto [place, is_new] = places_.try_emplace(hash_key(key), items_.size());
  if (is_new) {
    items_.emplace_back(key, std::move(value));
  } else {
    items_[place->second].second = std::move(value);
  }
}

const Value* Dict::find(const Value& key) const {
  const auto place = places_.find(hash_key(key));
  return place == places_.end() ? nullptr : &items_[place->second].second;
}

const Value* Dict::find(std::string_view key) const {
  const auto place = places_.find("s" + std::string(key));
  return place == places_.end() ? nullptr : &items_[place->second].second;
}

std::vector<Value> Iterator::take_rest() {
  std::vector<Value> rest(items.begin() + static_cast<std::ptrdiff_t>(next), items.end());
  next = items.size();
  return rest;
}

std::string type_name(const Value& value) {
  if (const Sequence* sequence = value.sequence()) {
    switch (sequence->kind) {
      case Sequence::Kind::kList:
        return "list";
      case Sequence::Kind::kTuple:
        return "tuple";
      case Sequence::Kind::kRange:
        return "range";
      case Sequence::Kind::kKeys:
        return "dict_keys";
      case Sequence::Kind::kValues:
        return "dict_values";
      case Sequence::Kind::kItems:
        return "dict_items";
    }
  }
  if (value.is_none()) return "NoneType";
  if (value.is_undefined()) return "Undefined";
  if (value.is_bool()) return "bool";
  if (value.is_integral()) return "int";
  if (value.is_float()) return "float";
  if (value.text() != nullptr) return "str";
  if (value.dict() != nullptr) return "dict";
  if (value.iterator() != nullptr) return "generator";
  if (value.names() != nullptr) return "Namespace";
  return value.loop() != nullptr ? "LoopContext" : "function";
}

bool is_true(const Value& value) {
  if (value.is_none() || value.is_undefined()) return false;
  if (value.is_number()) return value.number() != 0;
  if (const Text* text = value.text()) return !text->empty();
  if (const Sequence* sequence = value.sequence()) return !sequence->items.empty();
  if (const Dict* dict = value.dict()) return dict->size() != 0;
  return true;
}

bool equal(const Value& left, const Value& right) {
  spend_steps(1);
  if (left.is_number() && right.is_number()) {
    if (left.is_integral() && right.is_integral()) return left.integral() == right.integral();
    return left.number() == right.number();
  }
  if (left.data().index() != right.data().index()) return false;
  if (left.is_none() || left.is_undefined()) return true;
  if (const Text* text = left.text()) {
    spend_reading(std::min(text->size(), right.text()->size()));
    return same_text(*text, *right.text());
  }
  if (const Sequence* sequence = left.sequence()) return equal_items(*sequence, *right.sequence());
  if (const Dict* dict = left.dict()) return equal_dicts(*dict, *right.dict());
  return is_same_object(left, right);
}

bool is_same_object(const Value& left, const Value& right) {
  if (left.data().index() != right.data().index()) return false;
  return std::visit(
      [&](const auto& held) {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, None>) {
          return true;
        } else if constexpr (std::is_same_v<Held, Undefined>) {
          return held.problem == right.get<Undefined>()->problem;
        } else {
          return held == *right.get<Held>();
        }
      },
      left.data());
}

bool less(const Value& left, const Value& right) {
  spend_steps(1);
  for (const Value* value : {&left, &right}) {
    if (const auto* missing = value->get<Undefined>()) fail(*missing->problem);
  }
  if (left.is_integral() && right.is_integral()) return left.integral() < right.integral();
  if (left.is_number() && right.is_number()) return left.number() < right.number();
  if (left.text() != nullptr && right.text() != nullptr) {
    spend_reading(std::min(left.text()->size(), right.text()->size()));
    return text_less(*left.text(), *right.text());
  }
  const Sequence* first = left.sequence();
  const Sequence* second = right.sequence();
  if (first != nullptr && second != nullptr && first->kind == second->kind && is_list_or_tuple(*first)) {
    return less_sequence(*first, *second);
  }
  fail("cannot order values of the types " + type_name(left) + " and " + type_name(right));
}

std::string hash_key(const Value& value) {
  spend_steps(1);
  if (const Text* text = value.text()) {
    spend_reading(text->size());
    return "s" + to_utf8(*text);
  }
  if (value.is_number()) return number_key(value);
  if (value.is_none()) return "n";
  if (value.is_undefined()) return "u";
  const Sequence* sequence = value.sequence();
  if (sequence != nullptr && sequence->kind == Sequence::Kind::kTuple) return tuple_key(*sequence);
  fail("cannot use a value of the type " + type_name(value) + " as a key");
}

int value_depth(const Value& value) {
  if (const Sequence* sequence = value.sequence()) return sequence->depth;
  if (const Dict* dict = value.dict()) return dict->depth();
  if (const Iterator* iterator = value.iterator()) return iterator->depth;
  if (const Loop* loop = value.loop()) return loop->depth();
  if (const Function* function = value.function()) return function->depth;
  return 0;
}

}  // namespace ballast::text::jinja
