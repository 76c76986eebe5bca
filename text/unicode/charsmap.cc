#include "text/unicode/charsmap.h"

#include <utf8proc.h>

#include <algorithm>

#include "ballast/error.h"
#include "files/text.h"
#include "files/utf8.h"

namespace ballast::text {
namespace {

// Longer graphemes are replaced character by character.
constexpr std::size_t kMaxGraphemeBytes = 5;

std::uint32_t read_u32(std::string_view bytes) {
  std::uint32_t number = 0;
  for (std::size_t i = 4; i-- > 0;) number = number << 8 | static_cast<unsigned char>(bytes[i]);
  return number;
}

std::size_t grapheme_length(std::string_view text) {
  utf8proc_int32_t state = 0;
  std::size_t end = files::utf8_step(text, 0).length;
  auto last = static_cast<utf8proc_int32_t>(files::first_code_point(text));
  while (end < text.size()) {
    const auto next = static_cast<utf8proc_int32_t>(files::first_code_point(text.substr(end)));
    if (utf8proc_grapheme_break_stateful(last, next, &state)) break;
    end += files::utf8_step(text, end).length;
    last = next;
  }
  return end;
}

}  // namespace

Charsmap::Charsmap(std::string_view bytes, const std::string& context) {
  const std::size_t size = bytes.size() < 4 ? 0 : read_u32(bytes);
  if (size == 0 || size % 4 != 0 || size > bytes.size() - 4) {
    throw Error(context, files::concat("a map of ", bytes.size(), " bytes cannot hold a trie of ", size));
  }
  bytes.remove_prefix(4);
  for (std::size_t i = 0; i < size; i += 4) units_.push_back(read_u32(bytes.substr(i)));
  texts_ = bytes.substr(size);
  if (!texts_.ends_with('\0')) throw Error(context, "the map's last text does not end");
  check_trie(context);
}

void Charsmap::check_trie(const std::string& context) const {
  std::vector<bool> seen(units_.size());
  std::vector<std::uint32_t> places;
  const auto visit = [&](std::uint32_t place) {
    // A byte is combined with it by exclusive or.
    if ((place | 0xFFu) >= units_.size()) {
      throw Error(context, files::concat("the map's trie leads to unit ", place, " of ", units_.size()));
    }
    if (!seen[place]) places.push_back(place);
    seen[place] = true;
  };
  visit(offset(units_[0]));
  while (!places.empty()) {
    const std::uint32_t parent = places.back();
    places.pop_back();
    for (std::uint32_t byte = 1; byte < 256; ++byte) {
      const Unit unit = units_[parent ^ byte];
      if (label(unit) != byte) continue;
      const std::uint32_t place = parent ^ byte ^ offset(unit);
      visit(place);
      if (has_value(unit)) check_value(value(units_[place]), context);
    }
  }
}

void Charsmap::check_value(std::uint32_t value, const std::string& context) const {
  if (value >= texts_.size()) {
    throw Error(context, files::concat("the map's trie leads to byte ", value, " of ", texts_.size(), " of its texts"));
  }
  if (!files::is_utf8(texts_.c_str() + value)) {
    throw Error(context, files::concat("the map's text at byte ", value, " is not UTF-8"));
  }
}

std::optional<std::string_view> Charsmap::replacement(std::string_view text) const {
  std::uint32_t place = offset(units_[0]);
  for (const char c : text) {
    const std::uint32_t byte = static_cast<unsigned char>(c);
    if (byte == 0) return std::nullopt;
    const Unit unit = units_[place ^ byte];
    if (label(unit) != byte) return std::nullopt;
    place ^= byte ^ offset(unit);
    if (has_value(unit)) return std::string_view(texts_.c_str() + value(units_[place]));
  }
  return std::nullopt;
}

std::string Charsmap::normalize(std::string_view text) const {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const std::string_view grapheme = text.substr(0, grapheme_length(text));
    text.remove_prefix(grapheme.size());
    if (grapheme.size() <= kMaxGraphemeBytes) {
      if (const std::optional<std::string_view> whole = replacement(grapheme)) {
        result += *whole;
        continue;
      }
    }
    for (std::size_t begin = 0; begin < grapheme.size();) {
      const std::string_view character = grapheme.substr(begin, files::utf8_step(grapheme, begin).length);
      result += replacement(character).value_or(character);
      begin += character.size();
    }
  }
  return result;
}

}  // namespace ballast::text
