#include "text/unicode/regex_syntax.h"

#include "ballast/error.h"
#include "files/text.h"
#include "files/utf8.h"

namespace ballast::text {
namespace {

constexpr std::string_view kWordCharacters = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";

class Translation {
 public:
  Translation(std::string_view pattern, std::string_view context) : pattern_(pattern), context_(context) {}

  std::string run() {
    while (position_ < pattern_.size()) {
      if (pattern_[position_] == '\\') {
        escape();
      } else if (in_class_) {
        class_character();
      } else {
        character();
      }
    }
    return std::move(output_);
  }

 private:
  std::string_view rest() const { return pattern_.substr(position_); }

  void copy(std::size_t count) {
    output_ += pattern_.substr(position_, count);
    position_ += count;
  }

  void replace(std::size_t count, std::string_view by) {
    output_ += by;
    position_ += count;
  }

  [[noreturn]] void refuse(std::string_view what) const {
    throw Error(context_, "the expression " + files::in_quotes(pattern_) + " uses " + std::string(what) + " at byte " +
                              std::to_string(position_) + ", which is not supported");
  }

  static std::string word_boundary() {
    const std::string word = "[" + std::string(kWordCharacters) + "]";
    return "(?:(?<=" + word + ")(?!" + word + ")|(?<!" + word + ")(?=" + word + "))";
  }

  void escape() {
    if (position_ + 1 == pattern_.size()) refuse("a lone backslash");
    switch (pattern_[position_ + 1]) {
      case 's':
        return replace(2, R"(\p{White_Space})");
      case 'S':
        return replace(2, R"(\P{White_Space})");
      case 'w':
        return replace(2, in_class_ ? std::string(kWordCharacters) : "[" + std::string(kWordCharacters) + "]");
      case 'W':
        if (in_class_) refuse("\\W in a class");
        return replace(2, "[^" + std::string(kWordCharacters) + "]");
      case 'u':
        return replace(6, "\\x{" + std::string(pattern_.substr(position_ + 2, 4)) + "}");
      case 'b':
        if (in_class_) refuse("\\b in a class");
        return replace(2, word_boundary());
      case 'h':
      case 'H':
      case 'B':
        refuse(pattern_.substr(position_, 2));
      default:
        return copy(2);
    }
  }

  void class_character() {
    if (pattern_[position_] == '[') refuse("a class within a class");
    if (rest().starts_with("&&")) refuse("&&");
    if (pattern_[position_] == ']' && position_ > class_begin_) in_class_ = false;
    copy(1);
  }

  void character() {
    switch (pattern_[position_]) {
      case '[':
        copy(rest().starts_with("[^") ? 2 : 1);
        in_class_ = true;
        class_begin_ = position_;
        return;
      case '{':
        return repetition();
      case '(':
        if (rest().starts_with("(?")) check_options();
        return copy(1);
      default:
        return copy(1);
    }
  }

  void repetition() {
    const std::size_t length = rest().find('}');
    const bool counted = length != std::string_view::npos &&
                         rest().substr(1, length - 1).find_first_not_of("0123456789,") == std::string_view::npos;
    if (!counted || !rest().substr(length + 1).starts_with('+')) return copy(1);
    if (rest().starts_with("{0,")) return replace(length + 2, "*");
    if (rest().starts_with("{1,")) return replace(length + 2, "+");
    refuse("a counted repetition followed by +");
  }

  void check_options() const {
    for (const char option : rest().substr(2)) {
      if (option == 'm' || option == 's' || option == 'x') refuse("option letters other than i");
      if (option != 'i' && option != '-') return;
    }
  }

  std::string_view pattern_;
  std::string_view context_;
  std::size_t position_ = 0;
  bool in_class_ = false;
  std::size_t class_begin_ = 0;
  std::string output_;
};

}  // namespace

std::string pcre2_from_oniguruma(std::string_view pattern, std::string_view context) {
  return Translation(pattern, context).run();
}

}  // namespace ballast::text
