#include "report/chart/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>

#include "files/utf8.h"
#include "text/unicode/characters.h"

namespace ballast::report {
namespace {

// Control characters, line separators, and the formatting characters that hide or reorder the text around them.
bool is_invisible(char32_t c) {
  return c < 0x20 || (c >= 0x7F && c <= 0xA0) || c == 0xAD || c == 0x61C || c == 0x180E ||
         (c >= 0x200B && c <= 0x200F) || (c >= 0x2028 && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF ||
         (c >= 0xFFF9 && c <= 0xFFFB) || (c & 0xFFFEU) == 0xFFFE || c >= 0xE0000;
}

std::string hexadecimal(std::uint32_t value) {
  std::array<char, 8> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value, 16).ptr;
  return {digits.data(), end};
}

std::string fixed(double value, int decimals) {
  std::array<char, 400> digits{};
  const auto end =
      std::to_chars(digits.data(), digits.data() + digits.size(), value, std::chars_format::fixed, decimals).ptr;
  return {digits.data(), end};
}

std::string scientific(double value) {
  std::array<char, 40> digits{};
  const auto end =
      std::to_chars(digits.data(), digits.data() + digits.size(), value, std::chars_format::scientific, 1).ptr;
  return {digits.data(), end};
}

std::string with_separators(std::string digits) {
  for (std::size_t i = digits.size(); i > 3;) {
    i -= 3;
    digits.insert(i, ",");
  }
  return digits;
}

// Returns text with invisible characters replaced by `space`.
std::string shown(std::string_view text, std::string_view space) {
  std::string result;
  while (!text.empty()) {
    const files::Utf8Step step = files::utf8_step(text, 0);
    const bool whole = step.kind == files::Utf8Step::Kind::kWhole;
    const char32_t c = whole ? files::first_code_point(text) : 0;
    if (!whole) {
      result += "\\x" + hexadecimal(static_cast<unsigned char>(text[0]));
    } else if (c == ' ') {
      result += space;
    } else if (c == '\n') {
      result += "\\n";
    } else if (c == '\r') {
      result += "\\r";
    } else if (c == '\t') {
      result += "\\t";
    } else if (is_invisible(c)) {
      result += "\\u{" + hexadecimal(c) + "}";
    } else {
      result += text.substr(0, step.length);
    }
    text.remove_prefix(whole ? step.length : 1);
  }
  return result;
}

}  // namespace

std::string escape(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string visible(std::string_view text) {
  return text.empty() ? "(empty)" : shown(text, "␣");
}

std::string printable(std::string_view text) {
  return shown(text, " ");
}

std::string shortened(std::string_view utf8, std::size_t columns) {
  if (text::display_width(utf8) <= columns) return std::string(utf8);
  return std::string(text::first_columns(utf8, columns - 1)) + "…";
}

std::string count(std::size_t value) {
  return with_separators(std::to_string(value));
}

std::string number(double value) {
  if (!std::isfinite(value)) return "–";
  const double magnitude = std::abs(value);
  std::string digits;
  if (magnitude == 0) {
    digits = "0";
  } else if (magnitude >= 1e15 || magnitude < 0.0000995) {
    digits = scientific(magnitude);
  } else if (magnitude >= 99.95) {
    digits = with_separators(fixed(magnitude, 0));
  } else {
    const int decimals = magnitude >= 9.995      ? 1
                         : magnitude >= 0.0995   ? 2
                         : magnitude >= 0.00995  ? 3
                         : magnitude >= 0.000995 ? 4
                                                 : 5;
    digits = fixed(magnitude, decimals);
  }
  return value < 0 ? "−" + digits : digits;
}

std::string round_number(double value) {
  std::string digits = number(value);
  if (digits.find('.') == std::string::npos || digits.find('e') != std::string::npos) return digits;
  while (digits.back() == '0') digits.pop_back();
  if (digits.back() == '.') digits.pop_back();
  return digits;
}

std::string significant(double value, int digits) {
  if (!std::isfinite(value)) return "–";
  std::array<char, 40> text{};
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), std::abs(value), std::chars_format::general, digits).ptr;
  return (value < 0 ? "−" : "") + std::string(text.data(), end);
}

std::string percent(double share) {
  if (!std::isfinite(share)) return "–";
  const double hundredths = share * 100;
  return fixed(hundredths, hundredths >= 9.95 || hundredths == 0 ? 0 : 1) + " %";
}

std::string rounded(double value) {
  if (!std::isfinite(value) || value < 100) return round_number(value);
  const double unit = std::pow(10, std::floor(std::log10(value)) - 1);
  return number(std::round(value / unit) * unit);
}

std::string count_word(std::size_t value) {
  constexpr std::array<std::string_view, 10> kWords = {"No",   "One", "Two",   "Three", "Four",
                                                       "Five", "Six", "Seven", "Eight", "Nine"};
  return value < kWords.size() ? std::string(kWords[value]) : count(value);
}

std::string counted(std::size_t value, std::string_view singular, std::string_view plural) {
  return count(value) + " " + std::string(value == 1 ? singular : plural);
}

std::string listed(const std::vector<std::string>& items, std::size_t most) {
  const bool cut = items.size() > most;
  const std::size_t shown = cut ? most : items.size();
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) {
    const bool last = i + 1 == shown && !cut;
    if (i > 0) text += last ? " and " : ", ";
    text += items[i];
  }
  if (cut) text += (shown > 0 ? " and " : "") + count(items.size() - shown) + " more";
  return text;
}

std::string ranges(const std::vector<std::size_t>& ascending) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < ascending.size();) {
    std::size_t end = i + 1;
    while (end < ascending.size() && ascending[end] == ascending[end - 1] + 1) ++end;
    const bool pair = end - i == 2;  // "3 and 4", not "3–4"
    parts.push_back(std::to_string(ascending[i]));
    if (pair) parts.push_back(std::to_string(ascending[end - 1]));
    if (end - i > 2) parts.back() += "–" + std::to_string(ascending[end - 1]);
    i = end;
  }
  return listed(parts, parts.size());
}

std::string coordinate(double value) {
  std::string digits = fixed(value, 2);
  while (digits.back() == '0') digits.pop_back();
  if (digits.back() == '.') digits.pop_back();
  return digits == "-0" ? "0" : digits;
}

}  // namespace ballast::report
