#include "tools/commands/thinking_parts.h"

#include <algorithm>
#include <utility>

namespace ballast::tools {
namespace {

constexpr std::string_view kOpening = "<think>";
constexpr std::string_view kClosing = "</think>";
constexpr std::string_view kWhiteSpace = " \t\r\n";

/// Bytes at the end of `text` that may be the beginning of `tag`.
std::size_t begun_tag(std::string_view text, std::string_view tag) {
  for (std::size_t size = std::min(text.size(), tag.size() - 1); size > 0; --size) {
    if (tag.starts_with(text.substr(text.size() - size))) return size;
  }
  return 0;
}

}  // namespace

bool opens_thinking(std::string_view prompt) {
  const std::size_t end = prompt.find_last_not_of(kWhiteSpace);
  return end != std::string_view::npos && prompt.substr(0, end + 1).ends_with(kOpening);
}

void ThinkingParts::add(std::string_view text, std::vector<TextPart>& parts) {
  if (after_tag_) {
    text.remove_prefix(std::min(text.find_first_not_of(kWhiteSpace), text.size()));
    after_tag_ = text.empty();
  }
  if (text.empty()) return;
  if (parts.empty() || parts.back().thinking != thinking_) parts.push_back({.text = {}, .thinking = thinking_});
  parts.back().text += text;
}

std::vector<TextPart> ThinkingParts::split(std::string_view text) {
  const std::string all = std::exchange(waiting_, {}) + std::string(text);
  std::string_view rest = all;
  std::vector<TextPart> parts;
  while (true) {
    const std::string_view tag = thinking_ ? kClosing : kOpening;
    const std::size_t found = rest.find(tag);
    if (found == std::string_view::npos) {
      const std::size_t begun = begun_tag(rest, tag);
      add(rest.substr(0, rest.size() - begun), parts);
      waiting_ = rest.substr(rest.size() - begun);
      return parts;
    }
    add(rest.substr(0, found), parts);
    rest.remove_prefix(found + tag.size());
    thinking_ = !thinking_;
    after_tag_ = true;
  }
}

std::vector<TextPart> ThinkingParts::finish() {
  std::vector<TextPart> parts;
  add(std::exchange(waiting_, {}), parts);
  return parts;
}

}  // namespace ballast::tools
