#include "text/template/values/print.h"

#include <utf8proc.h>

#include <charconv>
#include <cmath>

#include "text/template/function.h"
#include "text/template/values/budget.h"

namespace ballast::text::jinja {
namespace {

constexpr int kMostPrintDepth = kMostValueDepth + 50;  // a namespace can contain itself

Text ascii(std::string_view text) {
  return {text.begin(), text.end()};
}

void append_hex(char32_t character, char32_t mark, char32_t letter, int digits, Text& text) {
  text += U'\\' | mark;
  text += letter | mark;
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) {
    text += static_cast<char32_t>("0123456789abcdef"[(character >> static_cast<unsigned>(shift)) & 15U]) | mark;
  }
}

// Implements Python's str.isprintable.
bool is_printable(char32_t character) {
  if (character == U' ') return true;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(character))) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

void append_repr_character(char32_t marked, char32_t quote, Text& text) {
  const char32_t character = unmarked(marked);
  const char32_t mark = marked & kUserMark;
  const auto escape = [&](char32_t letter) {
    text += U'\\' | mark;
    text += letter | mark;
  };
  if (character == quote || character == U'\\') {
    escape(character);
  } else if (character == U'\n') {
    escape(U'n');
  } else if (character == U'\r') {
    escape(U'r');
  } else if (character == U'\t') {
    escape(U't');
  } else if (is_printable(character)) {
    text += marked;
  } else if (character < 0x100) {
    append_hex(character, mark, U'x', 2, text);
  } else if (character < 0x10000) {
    append_hex(character, mark, U'u', 4, text);
  } else {
    append_hex(character, mark, U'U', 8, text);
  }
}

class Printer {
 public:
  explicit Printer(Text& text) : text_(text) {}

  void repr(const Value& value) {
    spend_steps(1);
    if (++depth_ > kMostPrintDepth) fail("prints values that nest too deeply");
    if (const Text* string = value.text()) {
      quoted(*string);
    } else if (const Sequence* sequence = value.sequence()) {
      print(*sequence);
    } else if (const Dict* dict = value.dict()) {
      print(*dict);
    } else if (Namespace* names = value.names()) {
      add(U"<Namespace ");
      print(names->attributes);
      add(U">");
    } else {
      add(ascii(scalar(value)));
    }
    --depth_;
  }

 private:
  static std::string scalar(const Value& value) {
    if (value.is_none()) return "None";
    if (value.is_undefined()) return "Undefined";
    if (value.is_bool()) return value.integral() != 0 ? "True" : "False";
    if (value.is_integral()) return std::to_string(value.integral());
    if (value.is_float()) return print_float(value.number());
    const Function* function = value.function();
    if (function != nullptr && function->is_macro) return "<Macro '" + function->name + "'>";
    if (Loop* loop = value.loop()) {
      loop->has(loop->source.size());
      return "<LoopContext " + std::to_string(loop->index + 1) + "/" + std::to_string(loop->items.size()) + ">";
    }
    fail("prints a value of the type " + type_name(value) + ", which has no text; use the filter list for iterators");
  }

  void quoted(TextView string) {
    spend_characters(string.size());
    const bool has_single = find_text(string, U"'") != TextView::npos;
    const char32_t quote = has_single && find_text(string, U"\"") == TextView::npos ? U'"' : U'\'';
    text_ += quote;
    for (const char32_t character : string) append_repr_character(character, quote, text_);
    text_ += quote;
  }

  void print(const Sequence& sequence) {
    switch (sequence.kind) {
      case Sequence::Kind::kList:
        return listed(sequence, U"[", U"]");
      case Sequence::Kind::kTuple:
        return listed(sequence, U"(", sequence.items.size() == 1 ? U",)" : U")");
      case Sequence::Kind::kKeys:
        return listed(sequence, U"dict_keys([", U"])");
      case Sequence::Kind::kValues:
        return listed(sequence, U"dict_values([", U"])");
      case Sequence::Kind::kItems:
        return listed(sequence, U"dict_items([", U"])");
      case Sequence::Kind::kRange:
        fail("prints a range; use the filter list");
    }
  }

  void listed(const Sequence& sequence, TextView open, TextView close) {
    add(open);
    for (std::size_t i = 0; i < sequence.items.size(); ++i) {
      if (i > 0) add(U", ");
      repr(sequence.items[i]);
    }
    add(close);
  }

  void print(const Dict& dict) {
    add(U"{");
    for (std::size_t i = 0; i < dict.size(); ++i) {
      if (i > 0) add(U", ");
      repr(dict.items()[i].first);
      add(U": ");
      repr(dict.items()[i].second);
    }
    add(U"}");
  }

  void add(TextView part) {
    spend_characters(part.size());
    text_ += part;
  }

  Text& text_;
  int depth_ = 0;
};

}  // namespace

std::string print_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char digits[64];
  const auto end = std::to_chars(digits, digits + sizeof digits, value, std::chars_format::scientific);
  std::string scientific(digits, end.ptr);
  const int exponent = std::stoi(scientific.substr(scientific.find('e') + 1));
  if (exponent < -4 || exponent >= 16) return scientific;
  const auto fixed_end = std::to_chars(digits, digits + sizeof digits, value, std::chars_format::fixed);
  std::string fixed(digits, fixed_end.ptr);
  return fixed.contains('.') ? fixed : fixed + ".0";
}

Text print_text(const Value& value) {
  if (const Text* text = value.text()) return *text;
  if (value.is_undefined()) return {};
  return print_repr(value);
}

Text print_repr(const Value& value) {
  Text text;
  Printer(text).repr(value);
  return text;
}

}  // namespace ballast::text::jinja
