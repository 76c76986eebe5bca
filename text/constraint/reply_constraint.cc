#include "text/constraint/reply_constraint.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/constraint/constraint_grammar.h"

namespace ballast::text {
namespace {

using nlohmann::ordered_json;
using enum ReplyState;

ordered_json sequence_format(std::vector<ordered_json> elements) {
  return {{"type", "sequence"}, {"elements", std::move(elements)}};
}

ordered_json either_format(std::vector<ordered_json> elements) {
  return {{"type", "or"}, {"elements", std::move(elements)}};
}

ordered_json text_format(std::string_view text) {
  return {{"type", "const_string"}, {"value", text}};
}

/// Builds the formats of structural tags for one reply's marks.
class ReplyConstrainer {
 public:
  ReplyConstrainer(const ReplyFormat& format, const Tokenizer& tokenizer, std::optional<std::size_t> thinking_tokens,
                   const ordered_json& ending_thinking)
      : format_(format), tokenizer_(tokenizer), thinking_tokens_(thinking_tokens), ending_thinking_(ending_thinking) {}

  /// `answer` after what may precede it in this state; null: nothing may.
  ordered_json around(const ordered_json& answer, ReplyState state) const {
    if (format_.name == "harmony") return messages(answer, state);
    if (format_.name == "gemma") return channel(answer, state);
    return thinking(answer, state);
  }

 private:
  /// A mark that is a special token is that token; every other one is text.
  ordered_json mark(std::string_view text) const {
    const std::optional<int> id = find_token(tokenizer_, text);
    if (id && tokenizer_.is_special(*id)) return {{"type", "token"}, {"token", *id}};
    return text_format(text);
  }

  /// Returns any text without these marks. If all are tokens, other special tokens may be in it.
  ordered_json without(const std::vector<std::string_view>& marks) const {
    ordered_json tokens = ordered_json::array();
    ordered_json texts = ordered_json::array();
    for (const std::string_view text : marks) {
      const ordered_json written = mark(text);
      written["type"] == "token" ? tokens.push_back(written["token"]) : texts.push_back(text);
    }
    ordered_json any = {{"type", "any_tokens"}, {"exclude_tokens", std::move(tokens)}};
    if (!texts.empty()) any = {{"type", "any_text"}, {"excludes", std::move(texts)}};
    if (thinking_tokens_) any["max_tokens"] = *thinking_tokens_;
    return any;
  }

  /// Any text up to a mark, and the mark.
  ordered_json until(std::string_view end) const { return sequence_format({without({end}), mark(end)}); }

  /// White space between thinking and answer.
  ordered_json gap() const {
    return {{"type", "grammar"}, {"grammar", format_.trims ? "root ::= [ \\n]{0,4}\n" : "root ::= \"\"\n"}};
  }

  ordered_json thinking(const ordered_json& answer, ReplyState state) const {
    const auto opens = [&](const ReplyMark& mark) { return mark.next == kThinking && mark.in.contains(kBegin); };
    const auto closes = [&](const ReplyMark& mark) { return mark.next == kAnswer && mark.in.contains(kThinking); };
    const auto opening = std::ranges::find_if(format_.marks, opens);
    const auto closing = std::ranges::find_if(format_.marks, closes);
    if (opening == format_.marks.end() || closing == format_.marks.end()) return nullptr;
    const ordered_json said = response(answer);
    ordered_json thought = sequence_format({until(closing->text), gap(), said});
    if (!ending_thinking_.is_null()) {
      std::vector<std::string_view> ends = {closing->text};
      for (const CallSyntax& call : format_.calls) {
        if (call.ends_thinking) ends.push_back(call.open);
      }
      thought = sequence_format(
          {without(ends), either_format({sequence_format({mark(closing->text), gap(), said}), ending_thinking_})});
    }
    if (state == kThinking) return thought;
    if (state != kBegin) return said == answer ? ordered_json(nullptr) : said;
    return either_format({sequence_format({mark(opening->text), thought}), said});
  }

  /// An answer that may be between marks of its own.
  ordered_json response(const ordered_json& answer) const {
    std::vector<ordered_json> forms = {answer};
    constexpr std::pair<std::string_view, std::string_view> kPairs[] = {{"<|START_RESPONSE|>", "<|END_RESPONSE|>"},
                                                                        {"<|START_TEXT|>", "<|END_TEXT|>"}};
    if (format_.name != "command") return answer;
    for (const auto& [opening, closing] : kPairs) {
      if (!find_token(tokenizer_, opening) || !find_token(tokenizer_, closing)) continue;
      forms.push_back(sequence_format({mark(opening), answer, mark(closing)}));
    }
    return forms.size() == 1 ? answer : either_format(std::move(forms));
  }

  /// gpt-oss: messages in channels for thinking, then one in the channel of the answer.
  ordered_json messages(const ordered_json& answer, ReplyState state) const {
    if (state == kAnswer) return nullptr;
    const ordered_json next = sequence_format({mark("<|start|>"), text_format("assistant")});
    std::vector<ordered_json> names;
    for (const ReplyChannel& channel : format_.channels) {
      if (channel.kind == ReplyKind::kThinking) names.push_back(text_format(channel.name));
    }
    const ordered_json rest = sequence_format({until("<|end|>"), next});
    const ordered_json thought =
        sequence_format({mark("<|channel|>"), either_format(std::move(names)), mark("<|message|>"), rest});
    const ordered_json last = sequence_format({mark("<|channel|>"), text_format("final"), mark("<|message|>"), answer});
    const ordered_json all =
        sequence_format({{{"type", thinking_tokens_ ? "optional" : "star"}, {"content", thought}}, last});
    return state == kThinking ? sequence_format({rest, all}) : all;
  }

  /// Gemma 4: a channel's name on the line of its mark.
  ordered_json channel(const ordered_json& answer, ReplyState state) const {
    ordered_json thought = sequence_format({until("<channel|>"), gap(), answer});
    if (state == kThinking) return thought;
    if (state != kBegin) return nullptr;
    const std::string name(format_.channels.front().name);
    return either_format({sequence_format({mark("<|channel>"), text_format(name + "\n"), thought}), answer});
  }

  const ReplyFormat& format_;
  const Tokenizer& tokenizer_;
  std::optional<std::size_t> thinking_tokens_;
  const ordered_json& ending_thinking_;
};

}  // namespace

Constraint constrain_reply(const Constraint& answer, const ReplyFormat& format, ReplyState state,
                           const Tokenizer& tokenizer, std::optional<std::size_t> thinking_tokens,
                           const ordered_json& ending_thinking) {
  if ((!answer && !thinking_tokens) || format.marks.empty()) return answer;
  const ordered_json inner = answer ? constraint_format(answer) : ordered_json{{"type", "any_text"}};
  const ordered_json whole = ReplyConstrainer(format, tokenizer, thinking_tokens, ending_thinking).around(inner, state);
  if (whole.is_null()) return answer;
  Constraint constraint = answer;
  constraint.kind = Constraint::Kind::kStructuralTag;
  constraint.text = ordered_json{{"type", "structural_tag"}, {"format", whole}}.dump();
  constraint.choices.clear();
  return constraint;
}

}  // namespace ballast::text
