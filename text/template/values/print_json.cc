#include <algorithm>
#include <cmath>

#include "text/template/function.h"
#include "text/template/values/budget.h"
#include "text/template/values/print.h"

namespace ballast::text::jinja {
namespace {

class JsonPrinter {
 public:
  explicit JsonPrinter(const JsonStyle& style) : style_(style) {}

  void print(const Value& value) {
    spend_steps(1);
    if (const Text* string = value.text()) {
      quoted(*string);
    } else if (const Dict* dict = value.dict()) {
      object(*dict);
    } else if (const Sequence* sequence = value.sequence();
               sequence != nullptr &&
               (sequence->kind == Sequence::Kind::kList || sequence->kind == Sequence::Kind::kTuple)) {
      array(*sequence);
    } else {
      add(scalar(value));
    }
  }

  Text take() { return std::move(text_); }

 private:
  static Text scalar(const Value& value) {
    if (value.is_none()) return U"null";
    if (value.is_bool()) return value.integral() != 0 ? U"true" : U"false";
    if (value.is_float() && std::isnan(value.number())) return U"NaN";
    if (value.is_float() && std::isinf(value.number())) return value.number() < 0 ? U"-Infinity" : U"Infinity";
    if (value.is_number()) return print_text(value);
    fail("tojson: a value of the type " + type_name(value) + " cannot be written as JSON");
  }

  void array(const Sequence& sequence) {
    add(U"[");
    ++level_;
    for (std::size_t i = 0; i < sequence.items.size(); ++i) {
      begin_item(i == 0);
      print(sequence.items[i]);
    }
    end_items(sequence.items.empty());
    add(U"]");
  }

  void object(const Dict& dict) {
    std::vector<std::pair<Value, Value>> items = dict.items();
    if (style_.sort_keys) {
      std::ranges::stable_sort(items, less, [](const auto& item) { return item.first; });
    }
    add(U"{");
    ++level_;
    for (std::size_t i = 0; i < items.size(); ++i) {
      begin_item(i == 0);
      const Value& key = items[i].first;
      quoted(key.text() != nullptr ? *key.text() : scalar(key));
      add(style_.after_key);
      print(items[i].second);
    }
    end_items(items.empty());
    add(U"}");
  }

  void begin_item(bool first) {
    if (!first) add(style_.between_items);
    if (style_.indent) new_line();
  }

  void end_items(bool none) {
    --level_;
    if (style_.indent && !none) new_line();
  }

  void new_line() {
    add(U"\n");
    for (int i = 0; i < level_; ++i) add(*style_.indent);
  }

  void quoted(TextView string) {
    spend_characters(string.size());
    text_ += U'"';
    for (const char32_t character : string) character_of_string(character);
    text_ += U'"';
  }

  void character_of_string(char32_t marked) {
    const char32_t character = unmarked(marked);
    const char32_t mark = marked & kUserMark;
    constexpr TextView kEscaped = U"\"\\\n\r\t\b\f";
    constexpr TextView kLetters = U"\"\\nrtbf";
    if (const std::size_t at = kEscaped.find(character); at != TextView::npos) {
      text_ += U'\\' | mark;
      text_ += kLetters[at] | mark;
    } else if (character < 0x20 || (style_.ascii_only && character > 0x7E && character < 0x10000)) {
      unit(character, mark);
    } else if (style_.ascii_only && character >= 0x10000) {
      unit(0xD800 + ((character - 0x10000) >> 10U), mark);
      unit(0xDC00 + ((character - 0x10000) & 0x3FFU), mark);
    } else {
      text_ += marked;
    }
  }

  void unit(char32_t value, char32_t mark) {
    text_ += U'\\' | mark;
    text_ += U'u' | mark;
    for (int shift = 12; shift >= 0; shift -= 4) {
      text_ += static_cast<char32_t>("0123456789abcdef"[(value >> static_cast<unsigned>(shift)) & 15U]) | mark;
    }
  }

  void add(TextView part) {
    spend_characters(part.size());
    text_ += part;
  }

  const JsonStyle& style_;
  Text text_;
  int level_ = 0;
};

}  // namespace

Text print_json(const Value& value, const JsonStyle& style) {
  JsonPrinter printer(style);
  printer.print(value);
  return printer.take();
}

Value from_json(const nlohmann::ordered_json& json, Origin origin) {
  if (json.is_null()) return {};
  if (json.is_boolean()) return {json.get<bool>()};
  if (json.is_number_unsigned() && json.get<std::uint64_t>() > INT64_MAX) return {json.get<double>()};
  if (json.is_number_integer()) return {json.get<std::int64_t>()};
  if (json.is_number()) return {json.get<double>()};
  if (json.is_string()) return {make_text(json.get_ref<const std::string&>(), origin)};
  if (json.is_array()) {
    std::vector<Value> items;
    for (const nlohmann::ordered_json& item : json) items.push_back(from_json(item, origin));
    return Value::list(std::move(items));
  }
  Dict dict;
  for (const auto& [key, item] : json.items()) dict.set({make_text(key, origin)}, from_json(item, origin));
  return {std::move(dict)};
}

}  // namespace ballast::text::jinja
