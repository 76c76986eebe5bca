#include "text/constraint/grammar_text.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "files/utf8.h"
#include "text/tokenizer.h"

namespace ballast::text {
namespace {

constexpr CodePoints kSurrogates = {0xD800, 0xDFFF};

void append_grammar_character(char32_t code_point, std::string& out) {
  std::array<char, 16> buffer;
  const bool plain = code_point >= 0x20 && code_point < 0x7F && code_point != '"' && code_point != '\\' &&
                     code_point != '[' && code_point != ']' && code_point != '^' && code_point != '-';
  if (plain) {
    out.push_back(static_cast<char>(code_point));
    return;
  }
  const int size = code_point <= 0xFFFF
                       ? std::snprintf(buffer.data(), buffer.size(), "\\u%04X", static_cast<unsigned>(code_point))
                       : std::snprintf(buffer.data(), buffer.size(), "\\U%08X", static_cast<unsigned>(code_point));
  out.append(buffer.data(), static_cast<std::size_t>(size));
}

}  // namespace

std::vector<CodePoints> normalized(std::vector<CodePoints> ranges) {
  std::ranges::sort(ranges, {}, &CodePoints::first);
  std::vector<CodePoints> merged;
  for (const CodePoints& range : ranges) {
    if (range.first > range.last) continue;
    if (!merged.empty() && range.first <= merged.back().last + 1) {
      merged.back().last = std::max(merged.back().last, range.last);
    } else {
      merged.push_back(range);
    }
  }
  return merged;
}

std::vector<CodePoints> complement(std::vector<CodePoints> ranges) {
  ranges.push_back(kSurrogates);
  std::vector<CodePoints> others;
  char32_t next = 0;
  for (const CodePoints& range : normalized(std::move(ranges))) {
    if (range.first > next) others.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastCodePoint) others.push_back({next, kLastCodePoint});
  return others;
}

std::vector<CodePoints> intersection(const std::vector<CodePoints>& a, const std::vector<CodePoints>& b) {
  std::vector<CodePoints> common;
  for (const CodePoints& x : a) {
    for (const CodePoints& y : b) {
      const CodePoints both = {std::max(x.first, y.first), std::min(x.last, y.last)};
      if (both.first <= both.last) common.push_back(both);
    }
  }
  return normalized(std::move(common));
}

std::string grammar_literal(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    append_grammar_character(files::first_code_point(text), out);
    text.remove_prefix(files::utf8_step(text, 0).length);
  }
  out.push_back('"');
  return out;
}

std::string grammar_class(const std::vector<CodePoints>& ranges) {
  std::string out = "[";
  for (const CodePoints& range : ranges) {
    append_grammar_character(range.first, out);
    if (range.last == range.first) continue;
    out.push_back('-');
    append_grammar_character(range.last, out);
  }
  out.push_back(']');
  return out;
}

std::string grammar_repetition(std::size_t least, std::size_t most) {
  const bool endless = most == Tokenizer::kNoLimit;
  if (least == 1 && most == 1) return "";
  if (least == 0 && most == 1) return "?";
  if (least == 0 && endless) return "*";
  if (least == 1 && endless) return "+";
  std::string out = "{" + std::to_string(least);
  if (least != most) out += "," + (endless ? std::string() : std::to_string(most));
  return out + "}";
}

}  // namespace ballast::text
