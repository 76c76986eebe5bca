#include "text/reply/call_marks.h"

#include "ballast/error.h"

namespace ballast::text {
namespace {

// White space within a mark, as between </arg_key> and <arg_value>, is short: what is longer is text.
constexpr std::size_t kLongestHeldMark = 256;

/// Returns the special tokens that a text contains, in order.
std::vector<int> special_tokens_in(std::string_view text, const Tokenizer& tokenizer) {
  std::vector<int> special;
  try {
    for (const int id : tokenizer.encode(text)) {
      if (tokenizer.is_special(id)) special.push_back(id);
    }
  } catch (const Error&) {  // the embedding has no row for one of them: the model cannot write it
    return {};
  }
  return special;
}

}  // namespace

std::vector<MarkPart> split_mark(std::string_view text, const Tokenizer& tokenizer) {
  std::vector<MarkPart> parts;
  for (const int id : special_tokens_in(text, tokenizer)) {
    const std::string token = tokenizer.token_bytes(id);
    const std::size_t begin = token.empty() ? std::string_view::npos : text.find(token);
    if (begin == std::string_view::npos) continue;  // one that the tokenizer adds to every text
    if (begin > 0) parts.push_back({.text = std::string(text.substr(0, begin))});
    parts.push_back({.token = id, .text = token});
    text.remove_prefix(begin + token.size());
  }
  if (!text.empty()) parts.push_back({.text = std::string(text)});
  return parts;
}

CallMark::CallMark(std::string_view text, const Tokenizer& tokenizer) {
  for (const MarkPart& part : split_mark(text, tokenizer)) {
    if (part.token) {
      elements_.push_back({.kind = Element::Kind::kToken, .token = *part.token});
      continue;
    }
    for (const char byte : part.text) {
      const bool is_space = byte == '\n' || byte == kUnwrittenSpace;
      elements_.push_back({.kind = is_space ? Element::Kind::kSpace : Element::Kind::kByte, .byte = byte});
    }
  }
  while (!elements_.empty() && elements_.back().kind == Element::Kind::kSpace) elements_.pop_back();
}

CallMarks make_call_marks(const std::vector<std::string_view>& texts, const Tokenizer& tokenizer) {
  CallMarks marks;
  for (const std::string_view text : texts) marks.emplace_back(text, tokenizer);
  return marks;
}

CallMarkMatcher::CallMarkMatcher(const CallMarks& marks) : marks_(&marks), positions_(marks.size(), 0) {}

CallMarkMatcher::Result CallMarkMatcher::take(const Symbol& symbol) {
  bool possible = false;
  for (std::size_t i = 0; i < positions_.size(); ++i) {
    const CallMark& mark = (*marks_)[i];
    if (positions_[i] == kFailedMark) continue;
    if (!step(mark, positions_[i], symbol)) {
      positions_[i] = kFailedMark;
      continue;
    }
    possible = true;
    if (positions_[i] < mark.elements_.size()) continue;
    matched_ = i;
    return Result::kMatched;
  }
  return possible ? Result::kMore : Result::kFailed;
}

bool CallMarkMatcher::step(const CallMark& mark, std::size_t& position, const Symbol& symbol) {
  using Kind = CallMark::Element::Kind;
  while (position < mark.elements_.size() && mark.elements_[position].kind == Kind::kSpace) {
    if (symbol.is_space()) return true;
    ++position;
  }
  if (position == mark.elements_.size()) return false;  // an empty mark
  const CallMark::Element& element = mark.elements_[position];
  ++position;
  return element.kind == Kind::kToken ? symbol.token == element.token : symbol.is(element.byte);
}

std::optional<std::size_t> CallTextReader::take(const Symbol& symbol, std::string& text) {
  held_.push_back(symbol);
  while (!held_.empty()) {
    CallMarkMatcher matcher(*marks_);
    auto result = CallMarkMatcher::Result::kMore;
    for (const Symbol& each : held_) {
      result = matcher.take(each);
      if (result != CallMarkMatcher::Result::kMore) break;
    }
    if (result == CallMarkMatcher::Result::kMatched) return matcher.matched();
    if (result == CallMarkMatcher::Result::kMore && held_.size() < kLongestHeldMark) return std::nullopt;
    text += held_.front().text;
    held_.erase(held_.begin());
  }
  return std::nullopt;
}

}  // namespace ballast::text
