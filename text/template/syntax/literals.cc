#include "text/template/syntax/literals.h"

#include <charconv>
#include <string_view>

#include "text/template/values/value.h"

namespace ballast::text::jinja {
namespace {

int digit_value(char32_t c) {
  if (c >= U'0' && c <= U'9') return static_cast<int>(c - U'0');
  if (c >= U'a' && c <= U'f') return static_cast<int>(c - U'a') + 10;
  if (c >= U'A' && c <= U'F') return static_cast<int>(c - U'A') + 10;
  return 99;
}

bool is_digit(TextView text, std::size_t at, int base = 10) {
  return at < text.size() && digit_value(text[at]) < base;
}

// Appends digits without the single underscores between them. Returns their end.
std::size_t read_digits(TextView text, std::size_t at, int base, std::string& digits) {
  while (is_digit(text, at, base)) {
    digits += static_cast<char>(text[at++]);
    if (at < text.size() && text[at] == U'_' && is_digit(text, at + 1, base)) ++at;
  }
  return at;
}

NumberLiteral integer_literal(std::size_t length, const std::string& digits, int base) {
  NumberLiteral literal{.length = length};
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), literal.integer, base);
  if (read.ec != std::errc()) fail("a number takes more than 64 bits");
  return literal;
}

// Returns the end of an exponent at `at`; `at` if there is none.
std::size_t read_exponent(TextView text, std::size_t at, std::string& digits) {
  if (at >= text.size() || (text[at] != U'e' && text[at] != U'E')) return at;
  std::size_t first = at + 1;
  const bool has_sign = first < text.size() && (text[first] == U'+' || text[first] == U'-');
  if (!is_digit(text, first + (has_sign ? 1 : 0))) return at;
  digits += 'e';
  if (has_sign) digits += static_cast<char>(text[first++]);
  return read_digits(text, first, 10, digits);
}

int base_of(TextView text) {
  if (text.size() < 3 || text[0] != U'0') return 10;
  const char32_t letter = text[1] | 0x20U;
  const int base = letter == U'x' ? 16 : letter == U'o' ? 8 : letter == U'b' ? 2 : 10;
  return is_digit(text, text[2] == U'_' ? 3 : 2, base) ? base : 10;
}

bool is_octal(TextView text, std::size_t at) {
  return is_digit(text, at, 8);
}

char32_t checked_character(std::uint64_t value) {
  if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) fail("a string has an escape of an invalid character");
  return static_cast<char32_t>(value);
}

class Unescaper {
 public:
  explicit Unescaper(TextView literal) : literal_(literal) {}

  Text run() {
    while (at_ < literal_.size()) {
      const char32_t character = literal_[at_++];
      if (character != U'\\' || at_ == literal_.size()) {
        text_ += character;
      } else {
        escape(literal_[at_++]);
      }
    }
    return std::move(text_);
  }

 private:
  void escape(char32_t letter) {
    constexpr TextView kLetters = U"\\'\"abfnrtv";
    constexpr TextView kCharacters = U"\\'\"\a\b\f\n\r\t\v";
    if (const std::size_t at = kLetters.find(letter); at != TextView::npos) {
      text_ += kCharacters[at];
    } else if (letter == U'\n') {
      return;  // the line goes on
    } else if (is_octal(literal_, at_ - 1)) {
      --at_;
      octal();
    } else if (letter == U'x') {
      hex(2);
    } else if (letter == U'u') {
      hex(4);
    } else if (letter == U'U') {
      hex(8);
    } else if (letter == U'N') {
      fail("a string names a character with \\N, which is not supported");
    } else {
      text_ += U'\\';
      text_ += letter;
    }
  }

  void octal() {
    std::uint64_t value = 0;
    for (int digits = 0; digits < 3 && is_octal(literal_, at_); ++digits) {
      value = value * 8 + static_cast<std::uint64_t>(digit_value(literal_[at_++]));
    }
    text_ += checked_character(value);
  }

  void hex(int digits) {
    std::uint64_t value = 0;
    for (int i = 0; i < digits; ++i) {
      if (!is_digit(literal_, at_, 16)) fail("a string has an escape that is cut off");
      value = value * 16 + static_cast<std::uint64_t>(digit_value(literal_[at_++]));
    }
    text_ += checked_character(value);
  }

  TextView literal_;
  std::size_t at_ = 0;
  Text text_;
};

}  // namespace

NumberLiteral read_number(TextView text) {
  if (!is_digit(text, 0)) return {};
  std::string digits;
  if (const int base = base_of(text); base != 10) {
    const std::size_t end = read_digits(text, text[2] == U'_' ? 3 : 2, base, digits);
    return integer_literal(end, digits, base);
  }
  const std::size_t whole_end = read_digits(text, 0, 10, digits);
  std::string all = digits;
  std::size_t end = whole_end;
  if (end < text.size() && text[end] == U'.' && is_digit(text, end + 1)) {
    all += '.';
    end = read_digits(text, end + 1, 10, all);
  }
  end = read_exponent(text, end, all);
  if (end == whole_end) {
    if (digits.front() != '0') return integer_literal(whole_end, digits, 10);
    // Only zeros are allowed: 007 is not a number.
    const std::size_t zeros = digits.find_first_not_of('0');
    return integer_literal(zeros == std::string::npos ? whole_end : zeros, "0", 10);
  }
  NumberLiteral literal{.length = end, .is_float = true};
  const auto read = std::from_chars(all.data(), all.data() + all.size(), literal.number);
  if (read.ec != std::errc()) fail("a number is beyond what floats hold");
  return literal;
}

Text unescape_string(TextView literal) {
  return Unescaper(literal).run();
}

}  // namespace ballast::text::jinja
