#include "text/pipeline/added_tokens.h"

#include <algorithm>

#include "files/utf8.h"
#include "text/unicode/characters.h"

namespace ballast::text {
namespace {

bool is_by_itself(std::string_view text, std::size_t begin, std::size_t end) {
  const std::string_view before = text.substr(0, begin);
  const std::string_view after = text.substr(end);
  return (before.empty() ||
          !is_word_character(files::first_code_point(before.substr(files::last_code_point_begin(before))))) &&
         (after.empty() || !is_word_character(files::first_code_point(after)));
}

std::size_t strip_left(std::string_view text, std::size_t begin, std::size_t lowest) {
  while (begin > lowest) {
    const std::size_t previous = files::last_code_point_begin(text.substr(0, begin));
    if (!is_white_space(files::first_code_point(text.substr(previous)))) break;
    begin = previous;
  }
  return begin;
}

std::size_t strip_right(std::string_view text, std::size_t end) {
  while (end < text.size() && is_white_space(files::first_code_point(text.substr(end))))
    end += files::utf8_step(text, end).length;
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
  std::vector<ByteTrie::Entry> contents;
  for (std::size_t i = 0; i < tokens_.size(); ++i) contents.push_back({tokens_[i].content, static_cast<int>(i)});
  index_of_ = ByteTrie(std::move(contents));
}

std::optional<AddedTokenFinder::Match> AddedTokenFinder::next_match(std::string_view text,
                                                                    std::span<const ByteRange> plain,
                                                                    std::size_t position) const {
  for (; position < text.size(); ++position) {
    std::optional<Match> longest;
    index_of_.for_each_prefix(text.substr(position), [&](std::size_t length, int index) {
      const AddedToken& token = tokens_[static_cast<std::size_t>(index)];
      if (token.special && overlaps_any(plain, position, position + length)) return;
      longest = Match{position, position + length, &token};
    });
    if (longest) return longest;
  }
  return std::nullopt;
}

void AddedTokenFinder::scan(std::string_view text, std::span<const ByteRange> plain,
                            const std::function<void(std::string_view)>& on_text,
                            const std::function<void(int)>& on_token) const {
  std::size_t done = 0;
  std::size_t search = 0;
  while (const std::optional<Match> match = next_match(text, plain, search)) {
    search = match->end;
    if (match->token->single_word && !is_by_itself(text, match->begin, match->end)) continue;
    const std::size_t begin = match->token->lstrip ? strip_left(text, match->begin, done) : match->begin;
    if (begin > done) on_text(text.substr(done, begin - done));
    on_token(match->token->id);
    done = match->token->rstrip ? strip_right(text, match->end) : match->end;
  }
  if (done < text.size()) on_text(text.substr(done));
}

}  // namespace ballast::text
