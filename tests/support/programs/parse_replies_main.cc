// Parses replies for scripts/check_replies.py: reads JSON lines and writes one for each.
//
// {"template": .., "special": [texts of special tokens], "tools": [..], "messages": [..], "variables": {..}} is
// answered with {"prompt": what the template writes}, and with "prompt" and "reply" in place of "messages" with
// {"format": .., "thinking": .., "answer": .., "calls": [[name, arguments], ..]}, or {"error": ..}. The reply is parsed
// as a whole and in pieces of 1 to 7 tokens: "differs" is the first size whose result is another one. A line with
// "reply" alone is another reply to the prompt before.
#include <cstddef>
#include <exception>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../tiny_tokenizer.h"
#include "ballast/error.h"
#include "text/chat/chat_prompt.h"
#include "text/reply/offered_tool.h"
#include "text/reply/reply_parser.h"
#include "text/text_stream.h"
#include "text/tokenizer.h"

namespace {

using ballast::ReplyKind;
using ballast::ReplyPart;
using nlohmann::ordered_json;
namespace text = ballast::text;

std::unique_ptr<text::Tokenizer> tokenizer_for(const ordered_json& request) {
  nlohmann::json written = ballast::test::tiny_tokenizer_json();
  written["added_tokens"].clear();
  int id = 261;
  for (const ordered_json& token : request["special"]) {
    written["added_tokens"].push_back(
        {{"id", id++}, {"content", token.get<std::string>()}, {"special", true}, {"normalized", false}});
  }
  const nlohmann::json config = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  return ballast::test::make_tiny_tokenizer(written, config, request["template"].get<std::string>());
}

std::vector<ReplyPart> parse(text::ReplyParser parser, const text::Tokenizer& tokenizer, const std::vector<int>& ids,
                             std::size_t size) {
  std::vector<text::ReplyPiece> pieces;
  text::StreamDecoder decoder(tokenizer);
  std::string piece;
  const auto push = [&] {
    parser.push(piece, pieces);
    piece.clear();
  };
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (tokenizer.is_special(ids[i])) {
      push();
      parser.push_special(ids[i], tokenizer.token_bytes(ids[i]), pieces);
    } else {
      piece += decoder.push(ids[i]);
    }
    if ((i + 1) % size == 0) push();
  }
  piece += decoder.finish();
  push();
  parser.finish(pieces);
  text::TextStream stream({});
  std::vector<ReplyPart> parts;
  for (const text::ReplyPiece& each : pieces) stream.push(each, parts);
  return parts;
}

ordered_json seen(const std::vector<ReplyPart>& parts) {
  std::string thinking;
  std::string answer;
  ordered_json calls = ordered_json::array();
  for (const ReplyPart& part : parts) {
    if (part.kind == ReplyKind::kThinking) thinking += part.text;
    if (part.kind == ReplyKind::kAnswer || part.kind == ReplyKind::kBrokenCall) answer += part.text;
    if (part.kind == ReplyKind::kBrokenCall) calls.erase(calls.size() - 1);
    if (part.kind == ReplyKind::kToolName) calls.push_back({part.text, ""});
    if (part.kind == ReplyKind::kToolArguments) calls.back()[1].get_ref<std::string&>() += part.text;
  }
  return {{"thinking", thinking}, {"answer", answer}, {"calls", calls}};
}

/// Parses replies to one prompt.
class Replies {
 public:
  explicit Replies(const ordered_json& request)
      : tokenizer_(tokenizer_for(request)),
        parser_(text::make_reply_parser(*tokenizer_, {.text = request["prompt"].get<std::string>(), .from_user = {}},
                                        request.value("format", "auto"), text::read_tools(request["tools"]))) {}

  ordered_json answer(const std::string& reply) const {
    const std::vector<int> ids = tokenizer_->encode(reply);
    const std::vector<ReplyPart> whole = parse(parser_, *tokenizer_, ids, ids.size() + 1);
    ordered_json result = seen(whole);
    result["format"] = parser_.format().name;
    for (std::size_t size = 1; size <= 7; ++size) {
      if (parse(parser_, *tokenizer_, ids, size) == whole) continue;
      result["differs"] = size;
      break;
    }
    return result;
  }

 private:
  std::unique_ptr<text::Tokenizer> tokenizer_;
  text::ReplyParser parser_;
};

ordered_json render(const ordered_json& request) {
  text::Conversation conversation;
  conversation.messages = request["messages"];
  conversation.tools = request["tools"];
  conversation.arguments = request.value("variables", ordered_json::object());
  conversation.add_generation_prompt = request.value("add_generation_prompt", true);
  return {{"prompt", text::apply_chat_template(*tokenizer_for(request), conversation).text}};
}

}  // namespace

int main() {
  std::optional<Replies> replies;
  for (std::string line; std::getline(std::cin, line);) {
    ordered_json result;
    try {
      const ordered_json request = ordered_json::parse(line);
      if (request.contains("prompt")) replies.emplace(request);
      const bool is_reply = request.contains("reply");
      if (is_reply && !replies) throw ballast::Error("reply", "comes before a prompt");
      result = is_reply ? replies->answer(request["reply"].get<std::string>()) : render(request);
    } catch (const std::exception& error) {
      result = {{"error", error.what()}};
    }
    std::cout << result.dump(-1, ' ', false, ordered_json::error_handler_t::replace) << std::endl;
  }
  return 0;
}
