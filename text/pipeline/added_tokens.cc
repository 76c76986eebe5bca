#include "text/pipeline/added_tokens.h"

#include <utf8proc.h>

#include <algorithm>

#include "text/unicode/utf8.h"

namespace ballast::text {
namespace {

// `\w` of Rust's regex crate, without the few Other_Alphabetic symbols (circled letters).
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

bool stands_alone(std::string_view text, std::size_t begin, std::size_t end) {
  const std::string_view before = text.substr(0, begin);
  const std::string_view after = text.substr(end);
  return (before.empty() || !is_word_character(first_code_point(before.substr(last_code_point_begin(before))))) &&
         (after.empty() || !is_word_character(first_code_point(after)));
}

std::size_t strip_left(std::string_view text, std::size_t begin, std::size_t lowest) {
  while (begin > lowest) {
    const std::size_t previous = last_code_point_begin(text.substr(0, begin));
    if (!is_white_space(first_code_point(text.substr(previous)))) break;
    begin = previous;
  }
  return begin;
}

std::size_t strip_right(std::string_view text, std::size_t end) {
  while (end < text.size() && is_white_space(first_code_point(text.substr(end)))) end += utf8_step(text, end).length;
  return end;
}

}  // namespace

AddedToken read_added_token(const files::JsonReader& node) {
  AddedToken token;
  token.content = node.at("content").string();
  token.special = node.flag("special", false);
  token.normalized = node.flag("normalized", !token.special);
  token.single_word = node.flag("single_word", false);
  token.lstrip = node.flag("lstrip", false);
  token.rstrip = node.flag("rstrip", false);
  return token;
}

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) index_of_.insert(tokens_[i].content, static_cast<int>(i));
}

std::optional<AddedTokenFinder::Match> AddedTokenFinder::next_match(std::string_view text, std::size_t position) const {
  for (; position < text.size(); ++position) {
    std::optional<Match> longest;
    index_of_.for_each_prefix(text.substr(position), [&](std::size_t length, int index) {
      longest = Match{position, position + length, &tokens_[static_cast<std::size_t>(index)]};
    });
    if (longest) return longest;
  }
  return std::nullopt;
}

void AddedTokenFinder::scan(std::string_view text, const std::function<void(std::string_view)>& on_text,
                            const std::function<void(int)>& on_token) const {
  std::size_t done = 0;
  std::size_t search = 0;
  while (const std::optional<Match> match = next_match(text, search)) {
    search = match->end;
    if (match->token->single_word && !stands_alone(text, match->begin, match->end)) continue;
    const std::size_t begin = match->token->lstrip ? strip_left(text, match->begin, done) : match->begin;
    if (begin > done) on_text(text.substr(done, begin - done));
    on_token(match->token->id);
    done = match->token->rstrip ? strip_right(text, match->end) : match->end;
  }
  if (done < text.size()) on_text(text.substr(done));
}

}  // namespace ballast::text
