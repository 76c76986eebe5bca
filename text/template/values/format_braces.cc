#include <string_view>

#include "text/template/operators.h"
#include "text/template/values/format.h"
#include "text/template/values/print.h"

namespace ballast::text::jinja {
namespace {

class BraceFormatter {
 public:
  BraceFormatter(TextView text, const Arguments& arguments) : text_(text), arguments_(arguments) {}

  Text run() {
    Text result;
    while (at_ < text_.size()) {
      const char32_t character = text_[at_++];
      const char32_t plain = unmarked(character);
      const bool is_doubled = at_ < text_.size() && unmarked(text_[at_]) == plain;
      if (plain != U'{' && plain != U'}') {
        result += character;
      } else if (is_doubled) {
        result += character;
        ++at_;
      } else if (plain == U'{') {
        result += place();
      } else {
        fail("a format has a single }");
      }
    }
    return result;
  }

 private:
  Text place() {
    const std::size_t end = find_text(text_, U"}", at_);
    if (end == TextView::npos) fail("a format has a { without }");
    Text field;
    for (const char32_t character : text_.substr(at_, end - at_)) field += unmarked(character);
    at_ = end + 1;
    if (field.contains(U'{')) fail("formats within formats are not supported");
    Text spec;
    if (const std::size_t colon = field.find(U':'); colon != Text::npos) {
      spec = field.substr(colon + 1);
      field.resize(colon);
    }
    char32_t conversion = 0;
    if (const std::size_t mark = field.find(U'!'); mark != Text::npos) {
      if (mark + 2 != field.size()) fail("a format has no such conversion");
      conversion = field.back();
      field.resize(mark);
    }
    const Value value = named_value(field);
    if (conversion == 0) return written(value, spec);
    if (conversion != U'r' && conversion != U's') fail("a format has no such conversion");
    return written(Value(conversion == U'r' ? print_repr(value) : print_text(value)), spec);
  }

  Value first_value(TextView name) {
    std::size_t at = 0;
    const std::optional<std::int64_t> index = read_count(name, at);
    if (name.empty() || (index && at == name.size())) {
      const std::size_t place = index ? static_cast<std::size_t>(*index) : next_++;
      if (place >= arguments_.positional.size()) fail("a format has more places than values");
      return arguments_.positional[place];
    }
    const std::string wanted = to_utf8(name);
    for (const auto& [given, value] : arguments_.named) {
      if (given == wanted) return value;
    }
    fail("a format names a value that is not there: " + wanted);
  }

  // Evaluates "name.attribute[key]".
  Value named_value(TextView field) {
    const std::size_t name_end = std::min(field.find_first_of(U".["), field.size());
    Value value = first_value(field.substr(0, name_end));
    for (std::size_t at = name_end; at < field.size();) {
      if (field[at] == U'.') {
        const std::size_t end = std::min(field.find_first_of(U".[", at + 1), field.size());
        value = attribute(value, to_utf8(field.substr(at + 1, end - at - 1)));
        at = end;
      } else {
        const std::size_t end = field.find(U']', at);
        if (field[at] != U'[' || end == TextView::npos) fail("a format has a [ without ]");
        value = bracket_item(value, field.substr(at + 1, end - at - 1));
        at = end + 1;
      }
    }
    return value;
  }

  static Value bracket_item(const Value& value, TextView key) {
    std::size_t at = 0;
    const std::optional<std::int64_t> index = read_count(key, at);
    return item(value, index && at == key.size() ? Value(*index) : Value(key));
  }

  static std::optional<Alignment> alignment_of(char32_t character) {
    switch (character) {
      case U'<':
        return Alignment::kLeft;
      case U'>':
        return Alignment::kRight;
      case U'^':
        return Alignment::kCenter;
      case U'=':
        return Alignment::kAfterSign;
      default:
        return std::nullopt;
    }
  }

  static FormatSpec read_spec(TextView text) {
    FormatSpec spec;
    std::size_t at = 0;
    const auto next_is = [&](char32_t character) { return at < text.size() && text[at] == character; };
    if (text.size() > 1 && alignment_of(text[1])) {
      spec.fill = text[0];
      spec.alignment = alignment_of(text[1]);
      at = 2;
    } else if (!text.empty() && alignment_of(text[0])) {
      spec.alignment = alignment_of(text[0]);
      at = 1;
    }
    if (next_is(U'+') || next_is(U'-') || next_is(U' ')) spec.sign = static_cast<char>(text[at++]);
    if (next_is(U'#')) spec.alternate = ++at > 0;
    if (next_is(U'0') && !spec.alignment) {
      spec.fill = U'0';
      spec.alignment = Alignment::kAfterSign;
    }
    spec.width = read_count(text, at).value_or(0);
    if (next_is(U',')) spec.grouped = ++at > 0;
    if (next_is(U'.')) {
      const std::optional<std::int64_t> precision = read_count(text, ++at);
      if (!precision) fail("a format has a precision without a number");
      spec.precision = static_cast<int>(*precision);
    }
    if (at < text.size() && text[at] < 0x7F) spec.type = static_cast<char>(text[at++]);
    if (at != text.size()) fail("a format has a wrong specification: " + to_utf8(text));
    return spec;
  }

  static Text written(const Value& value, TextView specification) {
    if (specification.empty()) return print_text(value);
    FormatSpec spec = read_spec(specification);
    const bool is_number = value.is_number() && !(value.is_bool() && spec.type == 0);
    if (is_number && spec.type != 's') {
      if (spec.type != 0 && !std::string_view("boxXdeEfFgG%").contains(spec.type)) fail("a format has no such type");
      return format_number(value, spec);
    }
    if (value.text() == nullptr && !value.is_bool()) {
      fail("a value of the type " + type_name(value) + " takes no format");
    }
    if ((spec.type != 0 && spec.type != 's') || spec.sign != '-' || spec.grouped || spec.alternate ||
        spec.alignment == Alignment::kAfterSign) {
      fail("a string takes no such format");
    }
    Text text = print_text(value);
    if (spec.precision) text = text.substr(0, static_cast<std::size_t>(*spec.precision));
    return padded_text(std::move(text), spec.width, spec.fill, spec.alignment.value_or(Alignment::kLeft));
  }

  TextView text_;
  const Arguments& arguments_;
  std::size_t at_ = 0;
  std::size_t next_ = 0;
};

}  // namespace

Text format_braces(TextView text, const Arguments& arguments) {
  return BraceFormatter(text, arguments).run();
}

}  // namespace ballast::text::jinja
