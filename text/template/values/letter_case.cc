// Character classes and case mappings of Python's str. Full mappings (one character to several) are limited to those
// likely to occur in prompts: sharp s, ligatures, the dotted I.
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <utility>

#include "text/template/values/marked_text.h"

namespace ballast::text::jinja {
namespace {

utf8proc_category_t category_of(char32_t character) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(unmarked(character)));
}

char32_t map_character(char32_t character, utf8proc_int32_t (*map)(utf8proc_int32_t)) {
  return marked_like(character, static_cast<char32_t>(map(static_cast<utf8proc_int32_t>(unmarked(character)))));
}

constexpr std::array<std::pair<char32_t, TextView>, 9> kFullUpper{{{U'\u00DF', U"SS"},
                                                                   {U'\u0149', U"\u02BCN"},
                                                                   {U'\uFB00', U"FF"},
                                                                   {U'\uFB01', U"FI"},
                                                                   {U'\uFB02', U"FL"},
                                                                   {U'\uFB03', U"FFI"},
                                                                   {U'\uFB04', U"FFL"},
                                                                   {U'\uFB05', U"ST"},
                                                                   {U'\uFB06', U"ST"}}};

void append_upper(char32_t character, Text& text) {
  const auto* const full =
      std::ranges::find(kFullUpper, unmarked(character), [](const auto& entry) { return entry.first; });
  if (full == kFullUpper.end()) {
    text += map_character(character, utf8proc_toupper);
    return;
  }
  for (const char32_t mapped : full->second) text += marked_like(character, mapped);
}

void append_title(char32_t character, Text& text) {
  Text upper;
  append_upper(character, upper);
  if (upper.size() == 1) {
    text += map_character(character, utf8proc_totitle);
    return;
  }
  text += upper.front();
  for (const char32_t rest : TextView(upper).substr(1)) text += map_character(rest, utf8proc_tolower);
}

bool is_cased(char32_t character) {
  const utf8proc_category_t category = category_of(character);
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL || category == UTF8PROC_CATEGORY_LT;
}

// A sigma at the end of a word is another letter.
bool is_final_sigma(TextView text, std::size_t at) {
  return at > 0 && is_cased(text[at - 1]) && (at + 1 == text.size() || !is_cased(text[at + 1]));
}

void append_lower(TextView text, std::size_t at, Text& lower) {
  const char32_t character = text[at];
  if (unmarked(character) == U'\u03A3' && is_final_sigma(text, at)) {
    lower += marked_like(character, U'\u03C2');
  } else if (unmarked(character) == U'\u0130') {
    lower += marked_like(character, U'i');
    lower += marked_like(character, U'\u0307');
  } else {
    lower += map_character(character, utf8proc_tolower);
  }
}

}  // namespace

bool is_python_space(char32_t character) {
  const char32_t c = unmarked(character);
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_line_end(char32_t character) {
  const char32_t c = unmarked(character);
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool is_digit_character(char32_t character) {
  return category_of(character) == UTF8PROC_CATEGORY_ND;
}

bool is_alphabetic(char32_t character) {
  const utf8proc_category_t category = category_of(character);
  return is_cased(character) || category == UTF8PROC_CATEGORY_LM || category == UTF8PROC_CATEGORY_LO;
}

bool is_upper_character(char32_t character) {
  return category_of(character) == UTF8PROC_CATEGORY_LU;
}

bool is_lower_character(char32_t character) {
  return category_of(character) == UTF8PROC_CATEGORY_LL;
}

Text upper_text(TextView text) {
  Text upper;
  for (const char32_t character : text) append_upper(character, upper);
  return upper;
}

Text lower_text(TextView text) {
  Text lower;
  for (std::size_t i = 0; i < text.size(); ++i) append_lower(text, i, lower);
  return lower;
}

Text capitalize_text(TextView text) {
  Text result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i == 0) {
      append_title(text[i], result);
    } else {
      append_lower(text, i, result);
    }
  }
  return result;
}

Text title_text(TextView text) {
  Text result;
  bool within_word = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (within_word) {
      append_lower(text, i, result);
    } else {
      append_title(text[i], result);
    }
    within_word = is_cased(text[i]);
  }
  return result;
}

bool is_lower_text(TextView text) {
  return std::ranges::any_of(text, is_lower_character) && std::ranges::none_of(text, is_upper_character);
}

bool is_upper_text(TextView text) {
  return std::ranges::any_of(text, is_upper_character) && std::ranges::none_of(text, is_lower_character);
}

}  // namespace ballast::text::jinja
