#include <algorithm>

#include "text/template/builtins.h"
#include "text/template/operators.h"
#include "text/template/values/budget.h"
#include "text/template/values/format.h"
#include "text/template/values/print.h"
#include "text/unicode/characters.h"

namespace ballast::text::jinja {
namespace {

using Filtered = Value;

Text spaces(std::int64_t count) {
  const auto size = static_cast<std::size_t>(std::max<std::int64_t>(count, 0));
  spend_characters(size);
  return Text(size, U' ');
}

// Returns markup if `input` is markup.
Filtered like(const Value& input, Text text) {
  return input.is_markup() ? Value::markup(std::move(text)) : Value(std::move(text));
}

template <Text (*kChange)(TextView)>
Filtered changed_text(Interpreter& /*interpreter*/, const Value& input, const Arguments& arguments) {
  const Bound bound("the filter", arguments, {});
  return like(input, kChange(print_text(input)));
}

Text title_of_filter(TextView text) {
  Text title;
  bool begins = true;
  std::size_t begin = 0;
  const auto flush = [&](std::size_t end) {
    if (begin >= end) return;
    title += upper_text(text.substr(begin, 1));
    title += lower_text(text.substr(begin + 1, end - begin - 1));
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char32_t character = unmarked(text[i]);
    const bool separates = is_python_space(character) || TextView(U"-({[<").find(character) != TextView::npos;
    if (separates == begins) continue;
    if (separates) {
      flush(i);
    } else {
      title += text.substr(begin, i - begin);
    }
    begin = i;
    begins = separates;
  }
  if (begins) {
    title += text.substr(begin);
  } else {
    flush(text.size());
  }
  return title;
}

Filtered title(Interpreter& /*interpreter*/, const Value& input, const Arguments& arguments) {
  const Bound bound("the filter title", arguments, {});
  return {title_of_filter(print_text(input))};
}

Filtered trim(Interpreter& /*interpreter*/, const Value& input, const Arguments& arguments) {
  const Bound bound("the filter trim", arguments, {"chars"});
  const Text text = print_text(input);
  const bool has_characters = bound.find(0) != nullptr && !bound[0].is_none();
  return like(input, Text(strip_text(text, Side::kBoth, has_characters ? std::optional(bound.text(0)) : std::nullopt)));
}

Filtered replace(Interpreter& /*interpreter*/, const Value& input, const Arguments& arguments) {
  const Bound bound("the filter replace", arguments, {"old", "new", "count"}, 2);
  const bool has_count = bound.find(2) != nullptr && !bound[2].is_none();
  return {replace_text(print_text(input), print_text(bound[0]), print_text(bound[1]),
                       has_count ? bound.limit(2) : kNoLimit)};
}

Filtered to_string(Interpreter& /*interpreter*/, const Value& input, const Arguments& arguments) {
  const Bound bound("the filter string", arguments, {});
  return like(input, print_text(input));
}

Filtered safe(Interpreter& /*interpreter*/, const Value& input, const Arguments& arguments) {
  const Bound bound("the filter safe", arguments, {});
  return Value::markup(print_text(input));
}

Filtered escape(Interpreter& /*interpreter*/, const Value& input, const Arguments& arguments) {
  const Bound bound("the filter escape", arguments, {});
  return input.is_markup() ? input : Value::markup(escape_text(print_text(input)));
}

Filtered force_escape(Interpreter& /*interpreter*/, const Value& input, const Arguments& arguments) {
  const Bound bound("the filter forceescape", arguments, {});
  return Value::markup(escape_text(print_text(input)));
}

Filtered indent(Interpreter& /*interpreter*/, const Value& input, const Arguments& arguments) {
  const Bound bound("the filter indent", arguments, {"width", "first", "blank"});
  if (input.text() == nullptr) fail("the filter indent takes a string, not a value of the type " + type_name(input));
  const bool is_text = bound.find(0) != nullptr && bound[0].text() != nullptr;
  const Text indention = is_text ? *bound[0].text() : spaces(bound.integer(0, 4));
  const bool with_blank = bound.truth(2, false);
  const Text whole = *input.text() + U"\n";
  Text result;
  bool is_first = true;
  for (const TextView line : split_lines(whole, false)) {
    if (!is_first) result += U'\n';
    if (is_first ? bound.truth(1, false) : with_blank || !line.empty()) {
      spend_characters(indention.size());
      result += indention;
    }
    result += line;
    is_first = false;
  }
  return {std::move(result)};
}

Filtered center(Interpreter& /*interpreter*/, const Value& input, const Arguments& arguments) {
  const Bound bound("the filter center", arguments, {"width"});
  return {padded_text(print_text(input), bound.integer(0, 80), U' ', Alignment::kCenter)};
}

Filtered truncate(Interpreter& /*interpreter*/, const Value& input, const Arguments& arguments) {
  const Bound bound("the filter truncate", arguments, {"length", "killwords", "end", "leeway"});
  const Text text = print_text(input);
  const std::int64_t length = bound.integer(0, 255);
  const TextView end = bound.text(2, U"...");
  const std::int64_t leeway = bound.integer(3, 5);
  if (length < static_cast<std::int64_t>(end.size()) || leeway < 0) fail("the filter truncate is given a wrong length");
  if (text.size() <= static_cast<std::size_t>(length) + static_cast<std::size_t>(leeway)) return {text};
  TextView kept = TextView(text).substr(0, static_cast<std::size_t>(length) - end.size());
  if (!bound.truth(1, false)) kept = split_text_right(kept, U" ", 1).front();
  return {Text(kept) + Text(end)};
}

Filtered word_count(Interpreter& /*interpreter*/, const Value& input, const Arguments& arguments) {
  const Bound bound("the filter wordcount", arguments, {});
  std::size_t count = 0;
  bool within = false;
  for (const char32_t character : print_text(input)) {
    const bool is_word = is_word_character(unmarked(character));
    if (is_word && !within) ++count;
    within = is_word;
  }
  return Value::integer(count);
}

Filtered format(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    fail("the filter format takes arguments by position or by name, not both");
  }
  Dict named;
  for (const auto& [name, value] : arguments.named) named.set(name, value);
  const Value values = arguments.named.empty() ? Value::tuple(arguments.positional) : Value(std::move(named));
  return {format_percent(interpreter, print_text(input), values)};
}

Filtered to_json(Interpreter& /*interpreter*/, const Value& input, const Arguments& arguments) {
  const Bound bound("the filter tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ascii_only = bound.truth(0, false);
  if (bound.find(1) != nullptr && !bound[1].is_none()) {
    style.indent = bound[1].text() != nullptr ? *bound[1].text() : spaces(bound.integer(1, 0));
    style.between_items = U",";
  }
  if (bound.find(2) != nullptr && !bound[2].is_none()) {
    const std::vector<Value> separators = items_of(bound[2]);
    if (separators.size() != 2 || separators[0].text() == nullptr || separators[1].text() == nullptr) {
      fail("the filter tojson takes two strings as separators");
    }
    style.between_items = *separators[0].text();
    style.after_key = *separators[1].text();
  }
  style.sort_keys = bound.truth(3, false);
  return {print_json(input, style)};
}

constexpr NamedFilter kTextFilters[] = {
    {"capitalize", changed_text<capitalize_text>},
    {"center", center},
    {"e", escape},
    {"escape", escape},
    {"forceescape", force_escape},
    {"format", format},
    {"indent", indent},
    {"lower", changed_text<lower_text>},
    {"replace", replace},
    {"safe", safe},
    {"string", to_string},
    {"title", title},
    {"tojson", to_json},
    {"trim", trim},
    {"truncate", truncate},
    {"upper", changed_text<upper_text>},
    {"wordcount", word_count},
};

}  // namespace

std::span<const NamedFilter> text_filters() {
  return kTextFilters;
}

}  // namespace ballast::text::jinja
