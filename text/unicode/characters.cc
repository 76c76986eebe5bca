#include "text/unicode/characters.h"

#include <utf8proc.h>

#include "ballast/text.h"
#include "files/utf8.h"

namespace ballast::text {
namespace {

struct Character {
  std::size_t bytes = 1;
  std::size_t columns = 1;
};

Character first_character(std::string_view text) {
  const files::Utf8Step step = files::utf8_step(text, 0);
  if (step.kind != files::Utf8Step::Kind::kWhole) return {};
  const int columns = utf8proc_charwidth(static_cast<utf8proc_int32_t>(files::first_code_point(text)));
  return {step.length, static_cast<std::size_t>(columns)};
}

}  // namespace

bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_word_character(char32_t code_point) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code_point))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return code_point == 0x200C || code_point == 0x200D;  // joiners
  }
}

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  while (!text.empty()) {
    const Character character = first_character(text);
    width += character.columns;
    text.remove_prefix(character.bytes);
  }
  return width;
}

std::string_view first_columns(std::string_view text, std::size_t columns) {
  std::size_t used = 0;
  std::size_t end = 0;
  while (end < text.size()) {
    const Character next = first_character(text.substr(end));
    used += next.columns;
    if (used > columns) break;
    end += next.bytes;
  }
  return text.substr(0, end);
}

std::string_view last_columns(std::string_view text, std::size_t columns) {
  for (std::size_t width = display_width(text); width > columns;) {
    const Character first = first_character(text);
    width -= first.columns;
    text.remove_prefix(first.bytes);
  }
  return text;
}

std::string_view from_code_point(std::string_view bytes) {
  while (!bytes.empty() && files::continues_code_point(bytes.front())) bytes.remove_prefix(1);
  return bytes;
}

}  // namespace ballast::text
