// The methods of Python's str.
#include <algorithm>

#include "text/template/builtins.h"
#include "text/template/operators.h"
#include "text/template/values/budget.h"
#include "text/template/values/format.h"
#include "text/template/values/print.h"

namespace ballast::text::jinja {
namespace {

using Answered = Value;

Value texts(const std::vector<TextView>& parts) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (const TextView part : parts) items.emplace_back(part);
  return Value::list(std::move(items));
}

template <Text (*kChange)(TextView)>
Answered changed(Interpreter& /*interpreter*/, const Value& self, const Arguments& arguments) {
  const Bound bound("the method", arguments, {});
  return {kChange(*self.text())};
}

template <bool (*kAsk)(TextView)>
Answered asked(Interpreter& /*interpreter*/, const Value& self, const Arguments& arguments) {
  const Bound bound("the method", arguments, {});
  return {kAsk(*self.text())};
}

template <bool (*kAsk)(char32_t)>
bool all_are(TextView text) {
  return !text.empty() && std::ranges::all_of(text, kAsk);
}

bool is_alphabetic_or_digit(char32_t character) {
  return is_alphabetic(character) || is_digit_character(character);
}

template <Side kSide>
Answered strip(Interpreter& /*interpreter*/, const Value& self, const Arguments& arguments) {
  const Bound bound("strip", arguments, {"/chars"});
  const bool has_characters = bound.find(0) != nullptr && !bound[0].is_none();
  return {strip_text(*self.text(), kSide, has_characters ? std::optional(bound.text(0)) : std::nullopt)};
}

template <bool kFromRight>
Answered split(Interpreter& /*interpreter*/, const Value& self, const Arguments& arguments) {
  const Bound bound("split", arguments, {"sep", "maxsplit"});
  const std::size_t most = bound.limit(1);
  const Text& text = *self.text();
  if (bound.find(0) == nullptr || bound[0].is_none()) {
    return texts(kFromRight ? split_words_right(text, most) : split_words(text, most));
  }
  const TextView separator = bound.text(0);
  if (separator.empty()) fail("split: the separator is empty");
  return texts(kFromRight ? split_text_right(text, separator, most) : split_text(text, separator, most));
}

Answered splitlines(Interpreter& /*interpreter*/, const Value& self, const Arguments& arguments) {
  const Bound bound("splitlines", arguments, {"keepends"});
  return texts(split_lines(*self.text(), bound.truth(0, false)));
}

template <bool kFromRight>
Answered partition(Interpreter& /*interpreter*/, const Value& self, const Arguments& arguments) {
  const Bound bound("partition", arguments, {"/sep"}, 1);
  const TextView text = *self.text();
  const TextView separator = bound.text(0);
  if (separator.empty()) fail("partition: the separator is empty");
  const std::size_t at = kFromRight ? find_last_text(text, separator) : find_text(text, separator);
  const Value nothing(Text{});
  if (at == TextView::npos)
    return Value::tuple(kFromRight ? std::vector{nothing, nothing, self} : std::vector{self, nothing, nothing});
  return Value::tuple(
      {Value(text.substr(0, at)), Value(text.substr(at, separator.size())), Value(text.substr(at + separator.size()))});
}

// The part selected by the arguments `begin` and `end` of a method, and its position.
struct Part {
  TextView text;
  std::size_t first;
};

Part part_of(const Text& text, const Bound& bound, std::size_t begin, std::size_t end) {
  const auto size = static_cast<std::int64_t>(text.size());
  const auto place = [&](std::size_t index, std::int64_t fallback) {
    const bool is_given = bound.find(index) != nullptr && !bound[index].is_none();
    const std::int64_t given = is_given ? bound.integer(index, 0) : fallback;
    return std::clamp<std::int64_t>(given < 0 ? given + size : given, 0, size);
  };
  const std::int64_t first = place(begin, 0);
  const std::int64_t past = std::max(first, place(end, size));
  return {TextView(text).substr(static_cast<std::size_t>(first), static_cast<std::size_t>(past - first)),
          static_cast<std::size_t>(first)};
}

template <bool (*kMatches)(TextView, TextView)>
Answered has_end(Interpreter& /*interpreter*/, const Value& self, const Arguments& arguments) {
  const Bound bound("startswith and endswith", arguments, {"/prefix", "/start", "/end"}, 1);
  const TextView text = part_of(*self.text(), bound, 1, 2).text;
  const Sequence* several = bound[0].sequence();
  if (several == nullptr || several->kind != Sequence::Kind::kTuple) return {kMatches(text, bound.text(0))};
  return {std::ranges::any_of(several->items, [&](const Value& one) {
    if (one.text() == nullptr) fail("startswith and endswith take strings");
    return kMatches(text, *one.text());
  })};
}

template <bool kFromRight, bool kMustBe>
Answered find(Interpreter& /*interpreter*/, const Value& self, const Arguments& arguments) {
  const Bound bound("find", arguments, {"/sub", "/start", "/end"}, 1);
  const Part part = part_of(*self.text(), bound, 1, 2);
  const std::size_t at = kFromRight ? find_last_text(part.text, bound.text(0)) : find_text(part.text, bound.text(0));
  if (at != TextView::npos) return Value::integer(part.first + at);
  if (kMustBe) fail("index: the string is not there");
  return {std::int64_t{-1}};
}

Answered count(Interpreter& /*interpreter*/, const Value& self, const Arguments& arguments) {
  const Bound bound("count", arguments, {"/sub", "/start", "/end"}, 1);
  return Value::integer(count_text(part_of(*self.text(), bound, 1, 2).text, bound.text(0)));
}

Answered replace_method(Interpreter& /*interpreter*/, const Value& self, const Arguments& arguments) {
  const Bound bound("replace", arguments, {"/old", "/new", "/count"}, 2);
  return {replace_text(*self.text(), bound.text(0), bound.text(1), bound.limit(2))};
}

Answered join_method(Interpreter& /*interpreter*/, const Value& self, const Arguments& arguments) {
  const Bound bound("join", arguments, {"/iterable"}, 1);
  if (const auto* missing = bound[0].get<Undefined>(); missing != nullptr) return {Text()};
  Text text;
  bool is_first = true;
  for (const Value& one : items_of(bound[0])) {
    if (one.text() == nullptr) fail("join takes strings, not values of the type " + type_name(one));
    spend_characters(self.text()->size());
    if (!is_first) text += *self.text();
    text += *one.text();
    is_first = false;
  }
  return {std::move(text)};
}

Answered remove_prefix(Interpreter& /*interpreter*/, const Value& self, const Arguments& arguments) {
  const Bound bound("removeprefix", arguments, {"/prefix"}, 1);
  const TextView text = *self.text();
  return {text_starts_with(text, bound.text(0)) ? text.substr(bound.text(0).size()) : text};
}

Answered remove_suffix(Interpreter& /*interpreter*/, const Value& self, const Arguments& arguments) {
  const Bound bound("removesuffix", arguments, {"/suffix"}, 1);
  const TextView text = *self.text();
  return {text_ends_with(text, bound.text(0)) ? text.substr(0, text.size() - bound.text(0).size()) : text};
}

template <Alignment kAlignment>
Answered pad(Interpreter& /*interpreter*/, const Value& self, const Arguments& arguments) {
  const Bound bound("ljust, rjust and center", arguments, {"/width", "/fillchar"}, 1);
  const TextView fill = bound.text(1, U" ");
  if (fill.size() != 1) fail("ljust, rjust and center fill with one character");
  return {padded_text(*self.text(), bound.integer(0, 0), fill[0], kAlignment)};
}

Answered zero_fill(Interpreter& /*interpreter*/, const Value& self, const Arguments& arguments) {
  const Bound bound("zfill", arguments, {"/width"}, 1);
  const Text& text = *self.text();
  const bool has_sign = !text.empty() && (unmarked(text[0]) == U'-' || unmarked(text[0]) == U'+');
  return {padded_text(text, bound.integer(0, 0), U'0', has_sign ? Alignment::kAfterSign : Alignment::kRight)};
}

Answered format_method(Interpreter& /*interpreter*/, const Value& self, const Arguments& arguments) {
  return {format_braces(*self.text(), arguments)};
}

constexpr NamedMethod kTextMethods[] = {
    {"capitalize", changed<capitalize_text>},
    {"casefold", changed<lower_text>},
    {"center", pad<Alignment::kCenter>},
    {"count", count},
    {"endswith", has_end<text_ends_with>},
    {"find", find<false, false>},
    {"format", format_method},
    {"index", find<false, true>},
    {"isalnum", asked<all_are<is_alphabetic_or_digit>>},
    {"isalpha", asked<all_are<is_alphabetic>>},
    {"isdecimal", asked<all_are<is_digit_character>>},
    {"isdigit", asked<all_are<is_digit_character>>},
    {"islower", asked<is_lower_text>},
    {"isnumeric", asked<all_are<is_digit_character>>},
    {"isspace", asked<all_are<is_python_space>>},
    {"isupper", asked<is_upper_text>},
    {"join", join_method},
    {"ljust", pad<Alignment::kLeft>},
    {"lower", changed<lower_text>},
    {"lstrip", strip<Side::kLeft>},
    {"partition", partition<false>},
    {"removeprefix", remove_prefix},
    {"removesuffix", remove_suffix},
    {"replace", replace_method},
    {"rfind", find<true, false>},
    {"rindex", find<true, true>},
    {"rjust", pad<Alignment::kRight>},
    {"rpartition", partition<true>},
    {"rsplit", split<true>},
    {"rstrip", strip<Side::kRight>},
    {"split", split<false>},
    {"splitlines", splitlines},
    {"startswith", has_end<text_starts_with>},
    {"strip", strip<Side::kBoth>},
    {"title", changed<title_text>},
    {"upper", changed<upper_text>},
    {"zfill", zero_fill},
};

}  // namespace

std::span<const NamedMethod> text_methods() {
  return kTextMethods;
}

}  // namespace ballast::text::jinja
