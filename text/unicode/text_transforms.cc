#include "text/unicode/text_transforms.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <utility>

#include "ballast/error.h"
#include "files/utf8.h"
#include "text/unicode/characters.h"

namespace ballast::text {
namespace {

template <typename Visit>
void for_each_code_point(std::string_view text, const Visit& visit) {
  for (std::size_t position = 0; position < text.size();) {
    const std::size_t length = files::utf8_step(text, position).length;
    visit(files::first_code_point(text.substr(position, length)), text.substr(position, length));
    position += length;
  }
}

utf8proc_category_t category_of(char32_t code_point) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
}

template <typename Keep>
std::string filter(std::string_view text, const Keep& keep) {
  std::string result;
  result.reserve(text.size());
  for_each_code_point(text, [&](char32_t code_point, std::string_view bytes) {
    if (keep(category_of(code_point))) result += bytes;
  });
  return result;
}

bool is_control(char32_t code_point) {
  switch (category_of(code_point)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CO:
      return code_point != '\t' && code_point != '\n' && code_point != '\r';
    default:
      return false;
  }
}

// The ranges of Hugging Face's BertNormalizer, including its 2B920 (2B820 was meant).
bool is_ideograph(char32_t code_point) {
  constexpr std::array<std::pair<char32_t, char32_t>, 8> kRanges{{{0x4E00, 0x9FFF},
                                                                  {0x3400, 0x4DBF},
                                                                  {0x20000, 0x2A6DF},
                                                                  {0x2A700, 0x2B73F},
                                                                  {0x2B740, 0x2B81F},
                                                                  {0x2B920, 0x2CEAF},
                                                                  {0xF900, 0xFAFF},
                                                                  {0x2F800, 0x2FA1F}}};
  return std::ranges::any_of(
      kRanges, [&](const auto& range) { return code_point >= range.first && code_point <= range.second; });
}

}  // namespace

std::string to_unicode_form(std::string_view text, UnicodeForm form) {
  int options = UTF8PROC_STABLE;
  options |= form == UnicodeForm::kNfc || form == UnicodeForm::kNfkc ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == UnicodeForm::kNfkc || form == UnicodeForm::kNfkd) options |= UTF8PROC_COMPAT;
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &mapped, static_cast<utf8proc_option_t>(options));
  if (size < 0) throw Error("Unicode normalization", utf8proc_errmsg(size));
  const std::unique_ptr<utf8proc_uint8_t, void (*)(void*)> owner(mapped, std::free);
  return {reinterpret_cast<const char*>(mapped), static_cast<std::size_t>(size)};
}

std::string lowercase(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for_each_code_point(text, [&](char32_t code_point, std::string_view) {
    // The only character whose lower case has two: a capital I with a dot becomes an i and a combining dot.
    constexpr char32_t kDottedI = 0x130;
    if (code_point == kDottedI) {
      result += "i\xCC\x87";
    } else {
      files::append_utf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code_point))), result);
    }
  });
  return result;
}

std::string remove_marks(std::string_view text) {
  return filter(text, [](utf8proc_category_t category) {
    return category != UTF8PROC_CATEGORY_MN && category != UTF8PROC_CATEGORY_MC && category != UTF8PROC_CATEGORY_ME;
  });
}

std::string remove_nonspacing_marks(std::string_view text) {
  return filter(text, [](utf8proc_category_t category) { return category != UTF8PROC_CATEGORY_MN; });
}

std::string clean_text(std::string_view text) {
  constexpr char32_t kReplacement = 0xFFFD;
  std::string result;
  result.reserve(text.size());
  for_each_code_point(text, [&](char32_t code_point, std::string_view bytes) {
    if (code_point == kReplacement || is_control(code_point)) return;
    if (is_white_space(code_point)) {
      result += ' ';
    } else {
      result += bytes;
    }
  });
  return result;
}

std::string space_ideographs(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for_each_code_point(text, [&](char32_t code_point, std::string_view bytes) {
    if (is_ideograph(code_point)) {
      result.append(" ").append(bytes).append(" ");
    } else {
      result += bytes;
    }
  });
  return result;
}

std::string_view strip(std::string_view text, bool left, bool right) {
  while (left && !text.empty() && is_white_space(files::first_code_point(text)))
    text.remove_prefix(files::utf8_step(text, 0).length);
  while (right && !text.empty()) {
    const std::size_t last = files::last_code_point_begin(text);
    if (!is_white_space(files::first_code_point(text.substr(last)))) break;
    text = text.substr(0, last);
  }
  return text;
}

}  // namespace ballast::text
