#include "text/reply/reply_parser.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/error.h"
#include "doctest/doctest.h"
#include "error_message.h"
#include "reply_pieces.h"
#include "text/chat/chat_prompt.h"
#include "text/reply/reply_format.h"
#include "text/text_stream.h"
#include "text/tokenizer.h"
#include "tiny_tokenizer.h"

namespace ballast::text {
namespace {

using test::Contains;
using test::error_message;
using Parts = std::vector<ReplyPart>;

constexpr ReplyKind kAnswer = ReplyKind::kAnswer;
constexpr ReplyKind kThinking = ReplyKind::kThinking;

/// A byte-level tokenizer with these special tokens.
std::unique_ptr<Tokenizer> tokenizer_with(const std::vector<std::string>& special,
                                          const std::string& chat_template = "") {
  nlohmann::json written = test::tiny_tokenizer_json();
  int id = 262;
  for (const std::string& token : special) {
    written["added_tokens"].push_back({{"id", id++}, {"content", token}, {"special", true}, {"normalized", false}});
  }
  return test::make_tiny_tokenizer(written, nlohmann::json::object(), chat_template);
}

const std::vector<std::string> kHarmonyTokens = {"<|start|>",     "<|channel|>", "<|message|>", "<|end|>x",
                                                 "<|constrain|>", "<|return|>",  "<|call|>"};

/// <|end|> is in the tiny tokenizer already.
std::unique_ptr<Tokenizer> harmony_tokenizer() {
  return tokenizer_with(kHarmonyTokens, "{{ messages[-1].content }}<|end|><|start|>assistant{# <|channel|> #}");
}

ChatPrompt prompt_for(const Tokenizer& tokenizer, const std::string& content) {
  return apply_chat_template(tokenizer, make_conversation(std::vector<ChatMessage>{{"user", content}}));
}

/// Returns the parts of a reply that a user sees: neighbours of one kind are put together.
Parts parse(const ReplyParser& parser, const Tokenizer& tokenizer, std::string_view written, std::size_t size) {
  Parts parts;
  TextStream stream({});
  for (const ReplyPiece& piece : test::reply_pieces(parser, tokenizer, tokenizer.encode(written), size)) {
    stream.push(piece, parts);
  }
  return parts;
}

void check_all_cuts(const ReplyParser& parser, const Tokenizer& tokenizer, const std::string& written,
                    const Parts& wanted) {
  CAPTURE(written);
  for (std::size_t size = 1; size <= written.size() + 1; ++size) {
    CAPTURE(size);
    CHECK(parse(parser, tokenizer, written, size) == wanted);
  }
}

TEST_CASE("thinking is separated from the answer for any division of the text") {
  const auto tokenizer = tokenizer_with({}, "{{ messages[-1].content }}<think>{# closed by </think> #}");
  const ReplyParser parser(find_reply_format(*tokenizer, "think"), *tokenizer);
  struct Case {
    std::string written;
    Parts parts;
  };
  const std::vector<Case> cases = {
      {"<think>\nIs 2 < 3? </thin> yes.\n</think>\n\nYes, <b>it</b> is <",
       {{kThinking, "Is 2 < 3? </thin> yes."}, {kAnswer, "Yes, <b>it</b> is <"}}},
      {" \n<think>hm</think>yes", {{kThinking, "hm"}, {kAnswer, "yes"}}},
      {"plain </think> text", {{kAnswer, "plain </think> text"}}},
      {" plain", {{kAnswer, " plain"}}},
      {"the mark <think> opens </think> closes", {{kAnswer, "the mark <think> opens </think> closes"}}},
      {"<think>a</think>b<think>c</think>d", {{kThinking, "a"}, {kAnswer, "b<think>c</think>d"}}},
      {"<think> and on ", {{kThinking, "and on"}}},
      {"<think>cut </thin", {{kThinking, "cut </thin"}}},
      {"<think></think>", {}},
      {"<think>\n\n</think>\n\nno thought", {{kAnswer, "no thought"}}},
      {"<thin", {{kAnswer, "<thin"}}},
      {" \n", {{kAnswer, " \n"}}},
      {"", {}},
      {"<think>\xC3\xA9t\xC3\xA9</think>\xC3\xA9", {{kThinking, "\xC3\xA9t\xC3\xA9"}, {kAnswer, "\xC3\xA9"}}},
  };
  for (const Case& each : cases) check_all_cuts(parser, *tokenizer, each.written, each.parts);
}

TEST_CASE("a template may have opened the thinking, a user may not") {
  const auto reply_to = [](const std::string& chat_template, const std::string& content, const std::string& written) {
    const auto tokenizer = tokenizer_with({}, chat_template);
    return parse(make_reply_parser(*tokenizer, prompt_for(*tokenizer, content), "think"), *tokenizer, written, 3);
  };
  const Parts thinks = {{kThinking, "hm"}, {kAnswer, "yes"}};
  const std::string written = "hm</think>\n\nyes";
  const Parts plain = {{kAnswer, written}};
  CHECK(reply_to("{{ messages[0].content }}\nassistant\n<think>\n", "a", written) == thinks);
  CHECK(reply_to("{{ messages[0].content }}<think>", "<think>", written) == thinks);
  CHECK(reply_to("{{ messages[0].content }}<think>\n\n</think>\n\n", "a", written) == plain);
  CHECK(reply_to("{{ messages[0].content }}", "<think>\n", written) == plain);
  CHECK(reply_to("{{ messages[0].content }}\n", "</think><think>", written) == plain);
  CHECK(reply_to("{{ messages[0].content }} Think in <think> tags first. assistant: ", "a", written) == plain);
  CHECK(reply_to("Use <think> tags. {{ messages[0].content }} <think>", "a", written) == thinks);
}

TEST_CASE("a reply that continues a message is in the thinking if that is") {
  const auto continued = [](const std::string& begun, const std::string& written) {
    const auto tokenizer = tokenizer_with({},
                                          "{{ '<user>' + messages[0].content + '<assistant>' }}"
                                          "{% if messages[1] %}{{ messages[1].content }}{% endif %}{# <think> #}");
    Conversation conversation = make_conversation(std::vector<ChatMessage>{{"user", "<think>"}, {"assistant", begun}});
    conversation.continue_final_message = true;
    conversation.add_generation_prompt = false;
    const ChatPrompt prompt = apply_chat_template(*tokenizer, conversation);
    return parse(make_reply_parser(*tokenizer, prompt, "auto"), *tokenizer, written, 2);
  };
  CHECK(continued("<think>\nhm", ", hm</think>yes") == Parts{{kThinking, ", hm"}, {kAnswer, "yes"}});
  CHECK(continued("<think>hm</think>yes", " and</think>") == Parts{{kAnswer, " and</think>"}});
  CHECK(continued("yes", " <think>no") == Parts{{kAnswer, " <think>no"}});
}

TEST_CASE("harmony: the final channel is the answer, the others are thinking") {
  const auto tokenizer = harmony_tokenizer();
  const ReplyParser parser = make_reply_parser(*tokenizer, prompt_for(*tokenizer, "a"), "auto");
  struct Case {
    std::string written;
    Parts parts;
  };
  const std::vector<Case> cases = {
      {"<|channel|>analysis<|message|>hm \n<|end|><|start|>assistant<|channel|>final<|message|> yes\n<|return|>",
       {{kThinking, "hm \n"}, {kAnswer, " yes\n"}}},
      {"<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>analysis<|message|>b<|end|>"
       "<|start|>assistant<|channel|>final<|message|>c",
       {{kThinking, "a\n\nb"}, {kAnswer, "c"}}},
      {"<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\": 1}<|call|>",
       {{kThinking, "{\"a\": 1}"}}},
      {" to=functions.f<|channel|>commentary<|constrain|>json<|message|>{}<|call|>", {{kThinking, "{}"}}},
      {"<|channel|>analysis<|message|>cut", {{kThinking, "cut"}}},
      {"<|channel|>fin", {}},
      {"<|channel|>final<|message|>spelled \\<|end|\\> < <|", {{kAnswer, "spelled \\<|end|\\> < <|"}}},
      {"<|message|>no channel", {{kAnswer, "no channel"}}},
      {"no marks at all", {{kAnswer, "no marks at all"}}},
      {std::string(300, 'x'), {{kAnswer, std::string(300, 'x')}}},
      {"<|channel|>analysis<|message|>a<|message|>b", {{kThinking, "ab"}}},
  };
  for (const Case& each : cases) check_all_cuts(parser, *tokenizer, each.written, each.parts);
}

TEST_CASE("marks that are special tokens are those tokens alone, not text that spells them out") {
  const auto tokenizer = tokenizer_with({"[THINK]", "[/THINK]"}, "{# [THINK] #}");
  ReplyParser parser = make_reply_parser(*tokenizer, {.text = "[INST]a[/INST]", .from_user = {{6, 7}}}, "auto");
  std::vector<ReplyPiece> pieces;
  parser.push("[THINK]", pieces);
  parser.push_special(*find_token(*tokenizer, "[THINK]"), "[THINK]", pieces);
  parser.push("[/THINK]", pieces);
  parser.push_special(*find_token(*tokenizer, "[/THINK]"), "[/THINK]", pieces);
  parser.push("b", pieces);
  parser.finish(pieces);
  Parts parts;
  TextStream stream({});
  for (const ReplyPiece& piece : pieces) stream.push(piece, parts);
  CHECK(parts == Parts{{kAnswer, "[THINK]"}, {kThinking, "[/THINK]"}, {kAnswer, "b"}});
}

TEST_CASE("formats of other models") {
  const auto check = [](const std::string& name, const std::string& opened_by, const std::string& written,
                        const Parts& wanted) {
    const auto tokenizer = tokenizer_with({}, "{{ messages[0].content }}" + opened_by);
    check_all_cuts(make_reply_parser(*tokenizer, prompt_for(*tokenizer, "a"), name), *tokenizer, written, wanted);
  };
  const Parts both = {{kThinking, "hm"}, {kAnswer, "yes"}};
  check("mistral", "", "[THINK]hm[/THINK]yes", both);
  check("mistral", "", "Well. [THINK]hm[/THINK] yes", {{kAnswer, "Well. "}, {kThinking, "hm"}, {kAnswer, " yes"}});
  check("seed", "", "<seed:think>hm</seed:think>yes", both);
  check("thought", "<thought>\n", "hm\n</thought>\n\nyes", both);
  check("command", "<|START_THINKING|>", "hm<|END_THINKING|><|START_RESPONSE|>yes<|END_RESPONSE|>", both);
  check("command", "<|START_THINKING|><|END_THINKING|>", "<|START_TEXT|>yes<|END_TEXT|>", {{kAnswer, "yes"}});
  check("gemma", "<|turn>model\n", "<|channel>thought\nhm\n<channel|>yes", both);
  check("gemma", "<|channel>thought\n<channel|>", "yes\nand", {{kAnswer, "yes\nand"}});
  check("harmony", "<|start|>assistant",
        "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>yes", both);
  check("none", "<think>", "<think>hm</think>yes", {{kAnswer, "<think>hm</think>yes"}});
}

TEST_CASE("the format is the one whose marks the chat template writes, else the one that the vocabulary has") {
  const auto name = [](const std::vector<std::string>& special, const std::string& chat_template) {
    return find_reply_format(*tokenizer_with(special, chat_template), "auto").name;
  };
  CHECK(name({}, "{{ messages }}") == "none");
  CHECK(name({}, "") == "none");
  CHECK(name({}, "{{ content.split('</think>')[-1] }}") == "think");
  CHECK(name({}, "{{ '<|channel|>analysis' }} <think>") == "harmony");
  CHECK(name({}, "{{ '<|channel>thought' }}") == "gemma");
  CHECK(name({}, "{{ '[THINK]' }}") == "mistral");
  CHECK(name({}, "{{ '<|START_THINKING|>' }}") == "command");
  CHECK(name({}, "{{ '<seed:think>' }}") == "seed");
  CHECK(name({"<think>", "</think>"}, "{{ messages }}") == "think");
  CHECK(name({"<think>"}, "{{ messages }}") == "none");
  CHECK(name(kHarmonyTokens, "{{ messages }}") == "harmony");
  CHECK(error_message([] { find_reply_format(*tokenizer_with({}, ""), "thonk"); }) ==
        Contains("reply format: \"thonk\" is not known: use auto, none, harmony, "));
}

TEST_CASE("marks that the model's embedding has no rows for are text") {
  const auto tokenizer = tokenizer_with({"<think>", "</think>"});
  CHECK(find_token(*tokenizer, "<think>") == 262);
  tokenizer->set_embedding_rows(262);
  CHECK_FALSE(find_token(*tokenizer, "<think>").has_value());
  CHECK(find_reply_format(*tokenizer, "auto").name == "none");
}

TEST_CASE("harmony's tokens that end the reply, and the one that does not") {
  const auto tokenizer = harmony_tokenizer();
  const ReplyParser parser(find_reply_format(*tokenizer, "harmony"), *tokenizer);
  CHECK(parser.ends() == std::vector<int>{*find_token(*tokenizer, "<|return|>"), *find_token(*tokenizer, "<|call|>")});
  CHECK(parser.inner() == std::vector<int>{*find_token(*tokenizer, "<|end|>")});
  CHECK(ReplyParser().ends().empty());
}

TEST_CASE("a stop string can span thinking and answer and matches whole marks, not the space next to them") {
  const auto tokenizer = tokenizer_with({}, "<think>");
  const auto reply = [&](const std::string& stop, std::size_t size) {
    ReplyParser parser(find_reply_format(*tokenizer, "think"), *tokenizer);
    TextStream stream({stop});
    Parts parts;
    std::vector<ReplyPiece> pieces;
    const auto show = [&] {
      for (const ReplyPiece& piece : pieces) stream.push(piece, parts);
      pieces.clear();
    };
    const std::string written = "<think>\nhm\n</think>\n\nyes and no";
    for (std::size_t begin = 0; begin < written.size(); begin += size) {
      parser.push(written.substr(begin, size), pieces);
      show();
    }
    parser.finish(pieces);
    show();
    stream.finish(parts);
    return parts;
  };
  for (std::size_t size = 1; size < 30; ++size) {
    CAPTURE(size);
    CHECK(reply("</think>", size) == Parts{{kThinking, "hm"}});
    CHECK(reply("m", size) == Parts{{kThinking, "h"}});
    CHECK(reply("hmyes", size).empty());
    CHECK(reply("\n\n", size) == Parts{{kThinking, "hm"}, {kAnswer, "yes and no"}});
    CHECK(reply(" no", size) == Parts{{kThinking, "hm"}, {kAnswer, "yes and"}});
  }
}

}  // namespace
}  // namespace ballast::text
