#include <string_view>

#include "text/template/operators.h"
#include "text/template/values/format.h"
#include "text/template/values/print.h"

namespace ballast::text::jinja {
namespace {

class PercentFormatter {
 public:
  PercentFormatter(TextView text, const Value& values) : text_(text), mapping_(values) {
    const Sequence* tuple = values.sequence();
    if (tuple != nullptr && tuple->kind == Sequence::Kind::kTuple) {
      values_ = tuple->items;
    } else {
      values_ = {values};
      may_be_left_ = values.dict() != nullptr;
    }
  }

  Text run() {
    Text result;
    while (at_ < text_.size()) {
      const char32_t character = text_[at_++];
      if (unmarked(character) != U'%') {
        result += character;
      } else {
        result += place();
      }
    }
    if (next_ < values_.size() && !may_be_left_) fail("not all values of a format are used");
    return result;
  }

 private:
  char32_t peek() const {
    if (at_ >= text_.size()) fail("a format ends too early");
    return unmarked(text_[at_]);
  }

  Value next_value() {
    if (next_ >= values_.size()) fail("a format has more places than values");
    return values_[next_++];
  }

  Value named_value() {
    const std::size_t end = find_text(text_, U")", ++at_);
    if (end == TextView::npos || mapping_.dict() == nullptr) fail("a format names a value, and there is no mapping");
    const Value* found = mapping_.dict()->find(Value(text_.substr(at_, end - at_)));
    if (found == nullptr) fail("a format names a value that is not there");
    at_ = end + 1;
    return *found;
  }

  std::int64_t width_or_precision() {
    if (peek() != U'*') return read_count(text_, at_).value_or(0);
    ++at_;
    const Value value = next_value();
    if (!value.is_integral() || value.integral() > 1'000'000'000 || value.integral() < 0) {
      fail("a format has no such width");
    }
    return value.integral();
  }

  Text place() {
    std::optional<Value> value;
    if (peek() == U'(') value = named_value();
    FormatSpec spec;
    for (; std::u32string_view(U"-+ #0").contains(peek()); ++at_) flag(spec);
    spec.width = width_or_precision();
    if (peek() == U'.') {
      ++at_;
      spec.precision = static_cast<int>(width_or_precision());
    }
    while (std::u32string_view(U"hlL").contains(peek())) ++at_;
    const char32_t type = peek();
    ++at_;
    if (type == U'%') return U"%";
    if (!value) value = next_value();
    return written(*value, type, spec);
  }

  void flag(FormatSpec& spec) const {
    const char32_t flag = peek();
    if (flag == U'-') spec.alignment = Alignment::kLeft;
    if (flag == U'+') spec.sign = '+';
    if (flag == U' ' && spec.sign != '+') spec.sign = ' ';
    if (flag == U'#') spec.alternate = true;
    if (flag == U'0' && spec.alignment != Alignment::kLeft) {
      spec.alignment = Alignment::kAfterSign;
      spec.fill = U'0';
    }
  }

  static Text written(const Value& value, char32_t type, FormatSpec spec) {
    const Alignment side = spec.alignment == Alignment::kLeft ? Alignment::kLeft : Alignment::kRight;
    if (side == Alignment::kLeft) spec.fill = U' ';
    if (type == U's' || type == U'r' || type == U'a') {
      Text text = type == U's' ? print_text(value) : print_repr(value);
      if (spec.precision) text = text.substr(0, static_cast<std::size_t>(*spec.precision));
      return padded_text(std::move(text), spec.width, U' ', side);
    }
    if (type == U'c') {
      const bool is_one = value.text() != nullptr && value.text()->size() == 1;
      if (!is_one) fail("a format of the type c takes one character");
      return padded_text(*value.text(), spec.width, U' ', side);
    }
    if (const auto* missing = value.get<Undefined>()) fail(*missing->problem);
    if (!value.is_number()) fail("a format takes a number, not a value of the type " + type_name(value));
    const bool is_integer = std::u32string_view(U"diu").contains(type);
    spec.type = is_integer ? 'd' : static_cast<char>(type);
    if (!is_integer && !std::u32string_view(U"oxXeEfFgG").contains(type)) fail("a format has no such type");
    if (!is_integer) return format_number(value, spec);
    if (spec.precision) fail("a precision of integers is not supported");
    const double number = value.number();
    if (value.is_float() && !(number > -0x1p63 && number < 0x1p63)) fail("a number takes more than 64 bits");
    return format_number(value.is_float() ? Value(static_cast<std::int64_t>(number)) : value, spec);
  }

  TextView text_;
  Value mapping_;
  std::vector<Value> values_;
  bool may_be_left_ = false;
  std::size_t at_ = 0;
  std::size_t next_ = 0;
};

}  // namespace

Text format_percent(Interpreter& /*interpreter*/, TextView text, const Value& values) {
  return PercentFormatter(text, values).run();
}

}  // namespace ballast::text::jinja
