#include "text/template/values/marked_text.h"

#include <algorithm>
#include <array>

#include "files/utf8.h"
#include "text/template/values/budget.h"

namespace ballast::text::jinja {
namespace {

constexpr std::size_t kComparedPerStep = 64;  // characters, which takes about the time of a step

std::size_t common_length(TextView left, TextView right) {
  const auto differ = std::ranges::mismatch(left, right, {}, unmarked, unmarked);
  return static_cast<std::size_t>(differ.in1 - left.begin());
}

}  // namespace

Text make_text(std::string_view utf8, Origin origin) {
  const char32_t mark = origin == Origin::kUser ? kUserMark : 0;
  Text text;
  text.reserve(utf8.size());
  for (std::size_t at = 0; at < utf8.size();) {
    text += files::first_code_point(utf8.substr(at)) | mark;
    at += files::utf8_step(utf8, at).length;
  }
  return text;
}

std::string to_utf8(TextView text) {
  std::string utf8;
  utf8.reserve(text.size());
  for (const char32_t character : text) files::append_utf8(unmarked(character), utf8);
  return utf8;
}

bool same_text(TextView left, TextView right) {
  return std::ranges::equal(left, right, {}, unmarked, unmarked);
}

bool text_less(TextView left, TextView right) {
  return std::ranges::lexicographical_compare(left, right, {}, unmarked, unmarked);
}

bool text_starts_with(TextView text, TextView prefix) {
  return text.size() >= prefix.size() && same_text(text.substr(0, prefix.size()), prefix);
}

bool text_ends_with(TextView text, TextView suffix) {
  return text.size() >= suffix.size() && same_text(text.substr(text.size() - suffix.size()), suffix);
}

std::size_t find_text(TextView text, TextView part, std::size_t from) {
  if (from > text.size() || part.size() > text.size() - from) return TextView::npos;
  std::size_t compared = 0;
  std::size_t found = TextView::npos;
  for (std::size_t at = from; found == TextView::npos && at + part.size() <= text.size(); ++at) {
    const std::size_t same = common_length(text.substr(at, part.size()), part);
    compared += same + 1;
    if (same == part.size()) found = at;
    if (compared >= kComparedPerStep) {
      spend_steps(compared / kComparedPerStep);
      compared %= kComparedPerStep;
    }
  }
  spend_steps(1);
  return found;
}

std::size_t find_last_text(TextView text, TextView part) {
  spend_steps(1);
  if (part.size() > text.size()) return TextView::npos;
  std::size_t compared = 0;
  for (std::size_t at = text.size() - part.size() + 1; at-- > 0;) {
    const std::size_t same = common_length(text.substr(at, part.size()), part);
    if (same == part.size()) return at;
    compared += same + 1;
    if (compared >= kComparedPerStep) {
      spend_steps(compared / kComparedPerStep);
      compared %= kComparedPerStep;
    }
  }
  return TextView::npos;
}

TextView strip_text(TextView text, Side side, std::optional<TextView> characters) {
  const auto goes = [&](char32_t character) {
    if (!characters) return is_python_space(character);
    return std::ranges::any_of(*characters, [&](char32_t one) { return unmarked(one) == unmarked(character); });
  };
  if (side != Side::kRight) {
    while (!text.empty() && goes(text.front())) text.remove_prefix(1);
  }
  if (side != Side::kLeft) {
    while (!text.empty() && goes(text.back())) text.remove_suffix(1);
  }
  return text;
}

std::vector<TextView> split_text(TextView text, TextView separator, std::size_t most) {
  std::vector<TextView> parts;
  while (parts.size() < most) {
    const std::size_t at = find_text(text, separator);
    if (at == TextView::npos) break;
    parts.push_back(text.substr(0, at));
    text.remove_prefix(at + separator.size());
  }
  parts.push_back(text);
  return parts;
}

std::vector<TextView> split_text_right(TextView text, TextView separator, std::size_t most) {
  std::vector<TextView> parts;
  while (parts.size() < most) {
    const std::size_t at = find_last_text(text, separator);
    if (at == TextView::npos) break;
    parts.push_back(text.substr(at + separator.size()));
    text = text.substr(0, at);
  }
  parts.push_back(text);
  std::ranges::reverse(parts);
  return parts;
}

std::vector<TextView> split_words(TextView text, std::size_t most) {
  std::vector<TextView> parts;
  while (true) {
    spend_steps(1);
    text = strip_text(text, Side::kLeft);
    if (text.empty()) return parts;
    const auto end = std::ranges::find_if(text, is_python_space);
    if (parts.size() == most || end == text.end()) {
      parts.push_back(parts.size() == most ? text : strip_text(text, Side::kRight));
      return parts;
    }
    const auto length = static_cast<std::size_t>(end - text.begin());
    parts.push_back(text.substr(0, length));
    text.remove_prefix(length);
  }
}

std::vector<TextView> split_words_right(TextView text, std::size_t most) {
  std::vector<TextView> parts;
  while (true) {
    spend_steps(1);
    text = strip_text(text, Side::kRight);
    if (text.empty()) break;
    std::size_t begin = text.size();
    while (begin > 0 && !is_python_space(text[begin - 1])) --begin;
    if (parts.size() == most || begin == 0) {
      parts.push_back(text);
      break;
    }
    parts.push_back(text.substr(begin));
    text = text.substr(0, begin);
  }
  std::ranges::reverse(parts);
  return parts;
}

std::vector<TextView> split_lines(TextView text, bool keep_ends) {
  std::vector<TextView> lines;
  std::size_t begin = 0;
  while (begin < text.size()) {
    spend_steps(1);
    std::size_t end = begin;
    while (end < text.size() && !is_line_end(text[end])) ++end;
    std::size_t next = std::min(end + 1, text.size());
    if (end + 1 < text.size() && unmarked(text[end]) == U'\r' && unmarked(text[end + 1]) == U'\n') ++next;
    lines.push_back(text.substr(begin, (keep_ends ? next : end) - begin));
    begin = next;
  }
  return lines;
}

std::size_t count_text(TextView text, TextView part) {
  if (part.empty()) return text.size() + 1;
  std::size_t count = 0;
  for (std::size_t at = find_text(text, part); at != TextView::npos; at = find_text(text, part, at + part.size())) {
    ++count;
  }
  return count;
}

Text replace_text(TextView text, TextView old_part, TextView new_part, std::size_t most) {
  Text replaced;
  std::size_t from = 0;
  for (std::size_t done = 0; done < most; ++done) {
    // An empty part matches before every character and at the end.
    const std::size_t at = old_part.empty() ? from + (done == 0 ? 0 : 1) : find_text(text, old_part, from);
    if (at == TextView::npos || at > text.size()) break;
    spend_characters(new_part.size());
    replaced.append(text.substr(from, at - from)).append(new_part);
    from = at + old_part.size();
  }
  if (from < text.size()) replaced.append(text.substr(from));
  return replaced;
}

Text escape_text(TextView text) {
  constexpr TextView kSpecial = U"&<>'\"";
  constexpr std::array<TextView, 5> kEntities = {U"&amp;", U"&lt;", U"&gt;", U"&#39;", U"&#34;"};
  Text escaped;
  for (const char32_t character : text) {
    const std::size_t at = kSpecial.find(unmarked(character));
    if (at == TextView::npos) {
      escaped += character;
    } else {
      for (const char32_t one : kEntities[at]) escaped += marked_like(character, one);
    }
  }
  return escaped;
}

}  // namespace ballast::text::jinja
