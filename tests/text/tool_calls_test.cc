#include <algorithm>
#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ballast/error.h"
#include "doctest/doctest.h"
#include "error_message.h"
#include "files/utf8.h"
#include "reply_pieces.h"
#include "text/reply/argument_values.h"
#include "text/reply/offered_tool.h"
#include "text/reply/reply_format.h"
#include "text/reply/reply_parser.h"
#include "text/text_stream.h"
#include "text/tokenizer.h"
#include "tiny_tokenizer.h"

namespace ballast::text {
namespace {

using test::Contains;
using test::error_message;
using Parts = std::vector<ReplyPart>;

/// What a user of the parser sees of a reply.
struct Seen {
  std::string thinking{};
  std::string answer{};
  std::vector<ToolCall> calls{};

  bool operator==(const Seen&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Seen& seen) {
  out << "thinking " << seen.thinking << ", answer " << seen.answer;
  for (const ToolCall& call : seen.calls) out << ", " << call.name << '(' << call.arguments << ')';
  return out;
}

Seen see(const Parts& parts) {
  Seen seen;
  for (const ReplyPart& part : parts) {
    switch (part.kind) {
      case ReplyKind::kAnswer:
        seen.answer += part.text;
        break;
      case ReplyKind::kThinking:
        seen.thinking += part.text;
        break;
      case ReplyKind::kToolName:
        seen.calls.push_back({.name = part.text, .arguments = {}});
        break;
      case ReplyKind::kToolArguments:
        seen.calls.back().arguments += part.text;
        break;
      case ReplyKind::kBrokenCall:
        seen.calls.pop_back();
        seen.answer += part.text;
        break;
    }
  }
  return seen;
}

std::vector<OfferedTool> weather_tools() {
  return read_tools(parse_tools(R"([
    {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {
      "city": {"type": "string"}, "days": {"type": "integer"}, "options": {"type": "object"},
      "exact": {"type": "boolean"}, "unit": {"type": ["string", "null"]}, "hours": {"type": "array"}}}}},
    {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}])"));
}

/// Gives replies to the parser of a format, in pieces of each size.
class Replies {
 public:
  /// `special`: marks that are special tokens.
  explicit Replies(const std::string& format, const std::vector<std::string>& special = {},
                   const std::string& chat_template = "") {
    nlohmann::json written = test::tiny_tokenizer_json();
    int id = 262;
    for (const std::string& token : special) {
      written["added_tokens"].push_back({{"id", id++}, {"content", token}, {"special", true}, {"normalized", false}});
    }
    tokenizer_ = test::make_tiny_tokenizer(written, nlohmann::json::object(), chat_template);
    parser_ = ReplyParser(find_reply_format(*tokenizer_, format), *tokenizer_, weather_tools());
  }

  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const ReplyParser& parser() const { return parser_; }

  Parts parts(const std::string& written, std::size_t size) const {
    Parts parts;
    TextStream stream({});
    for (const ReplyPiece& piece : test::reply_pieces(parser_, *tokenizer_, tokenizer_->encode(written), size)) {
      stream.push(piece, parts);
    }
    return parts;
  }

  /// Returns what is seen of a reply, after checking that it is the same for every division of it.
  Seen seen(const std::string& written) const {
    const Parts whole = parts(written, written.size() + 1);
    for (std::size_t size = 1; size <= 7; ++size) CHECK(parts(written, size) == whole);
    return see(whole);
  }

 private:
  std::unique_ptr<Tokenizer> tokenizer_;
  ReplyParser parser_;
};

TEST_CASE("Hermes: calls as JSON between marks") {
  const Replies replies("hermes");
  const std::string call =
      "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\", \"days\": 3}}\n</tool_call>";
  const ToolCall weather = {"weather", R"({"city": "Paris", "days": 3})"};
  const ToolCall now = {"now", "{}"};
  CHECK(replies.seen(call) == Seen{.calls = {weather}});
  CHECK(replies.seen("<think>\nhm\n</think>\n\nSure.\n" + call) == Seen{"hm", "Sure.", {weather}});
  CHECK(replies.seen(call + "\n" + "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>\n") ==
        Seen{.calls = {weather, now}});
  CHECK(replies.seen(call + "\nand <tool") == Seen{.answer = "and <tool", .calls = {weather}});
  CHECK(replies.seen("<tool_call>{\"arguments\":{ \"a\" : [1, {}] } ,\"name\":\"x.y\"}</tool_call>") ==
        Seen{.calls = {{"x.y", "{ \"a\" : [1, {}] }"}}});
  CHECK(replies.seen("<tool_call>{\"name\": \"now\"}</tool_call>") == Seen{.calls = {now}});
  CHECK(replies.seen(R"(<tool_call>{"name": "now", "arguments": "{\"a\": \"\\\"\"}"}</tool_call>)") ==
        Seen{.calls = {{"now", R"({"a": "\""})"}}});
}

TEST_CASE("a closing mark within a string of the arguments does not end a call") {
  const Replies replies("hermes");
  const std::string arguments = R"({"city": "a</tool_call>\"}}\n<tool_call>{"})";
  const std::string call = "<tool_call>\n{\"name\": \"weather\", \"arguments\": " + arguments + "}\n</tool_call>";
  CHECK(replies.seen(call) == Seen{.calls = {{"weather", arguments}}});
  const Replies special("hermes", {"<tool_call>", "</tool_call>"});
  CHECK(special.seen(call) == Seen{.calls = {{"weather", arguments}}});
}

TEST_CASE("what is no well-formed call is answer, without loss") {
  const Replies replies("hermes");
  const std::vector<std::string> broken = {
      "<tool_call>",
      "<tool_call></tool_call>",
      "Write <tool_call> tags.",
      "<tool_call>\n{\"name\": \"now\", \"arguments\": {\"a\": tru}}\n</tool_call>",
      "<tool_call>\n{\"name\": \"now\", \"arguments\": [1]}\n</tool_call>",
      "<tool_call>\n{\"name\": 1, \"arguments\": {}}\n</tool_call>",
      "<tool_call>\n{\"name\": \"\", \"arguments\": {}}\n</tool_call>",
      "<tool_call>\n{\"arguments\": {}}\n</tool_call>",
      "<tool_call>\n{\"name\": \"now\", \"name\": \"now\"}\n</tool_call>",
      "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}}\n</tool_call>",
      "<tool_call>\n{\"name\": \"now\", \"arguments\": {}} and text",
      "Yes:\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Par",
      "<tool_call>\n{\"name\": \"weather\", \"argu",
      "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"\x01\"}}\n</tool_call>",
      "<tool_call>\n<tool_call>\n[]\n</tool_call>",
  };
  for (const std::string& written : broken) {
    CAPTURE(written);
    CHECK(replies.seen(written) == Seen{.answer = written});
  }
  CHECK(replies.seen("Write <tool_call> tags: <tool_call>{\"name\": \"now\"}</tool_call>") ==
        Seen{.answer = "Write <tool_call> tags:", .calls = {{"now", "{}"}}});
  CHECK(replies.seen("<tool_call>\n<tool_call>{\"name\": \"now\"}</tool_call>") ==
        Seen{.answer = "<tool_call>", .calls = {{"now", "{}"}}});
}

TEST_CASE("Hermes: an offered tool is also called without marks, in a block of code, or in double braces") {
  const Replies replies("hermes");
  const std::string weather = R"({"name": "weather", "arguments": {"city": "Paris", "days": 3}})";
  const ToolCall call = {"weather", R"({"city": "Paris", "days": 3})"};
  const ToolCall now = {"now", "{}"};
  for (const std::string& written :
       {weather, " \n" + weather + "\n", "{" + weather + "}", "```json\n" + weather + "\n```",
        "```json\n{" + weather + "}\n```", "```json\n" + weather, "<tool_call>\n{" + weather + "}\n</tool_call>"}) {
    CAPTURE(written);
    CHECK(replies.seen(written) == Seen{.calls = {call}});
  }
  CHECK(replies.seen("I look:\n\n```json\n" + weather + "\n```\nand\n```json\n{\"name\": \"now\"}\n```\n") ==
        Seen{.answer = "I look:\nand", .calls = {call, now}});
  CHECK(replies.seen("<think>a</think>\n```json\n" + weather + "\n```") == Seen{.thinking = "a", .calls = {call}});
  for (const std::string written :
       {R"({"name": "other", "arguments": {}})", R"({"city": "Paris"})", R"({{"city": "Paris"}})", R"({{x}})",
        R"(See {"name": "now", "arguments": {}})", "```json\n{\"name\": \"other\", \"arguments\": {}}\n```\n",
        "```json\n[1, 2]\n```", "```json\n{\"name\": \"Ann\", \"age\": 3}\n```", "```python\n{}\n```", "{", "{{",
        "```json"}) {
    CAPTURE(written);
    CHECK(replies.seen(written) == Seen{.answer = written});
  }
}

TEST_CASE("a call that the end of the reply cuts is reported with its text") {
  const Replies replies("hermes");
  const std::string written = "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Par";
  CHECK(replies.parts(written, 3) == Parts{{ReplyKind::kToolName, "weather", 0},
                                           {ReplyKind::kToolArguments, "{\"city\": \"Par", 0},
                                           {ReplyKind::kBrokenCall, written, 0}});
  // The closing brace comes when the call is complete, so that what was streamed of another one is no JSON.
  const std::string garbage = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}} x";
  CHECK(replies.parts(garbage, 3) == Parts{{ReplyKind::kToolName, "now", 0},
                                           {ReplyKind::kToolArguments, "{", 0},
                                           {ReplyKind::kBrokenCall, garbage.substr(0, garbage.size() - 2), 0},
                                           {ReplyKind::kAnswer, " x", 0}});
  // Only the mark is missing.
  CHECK(replies.seen("<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool") == Seen{.calls = {{"now", "{}"}}});
}

TEST_CASE("calls are read only if tools are offered") {
  const Replies replies("hermes");
  const ReplyParser parser(find_reply_format(replies.tokenizer(), "hermes"), replies.tokenizer());
  const std::string written = "a\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call> \n";
  Parts parts;
  TextStream stream({});
  for (const ReplyPiece& piece :
       test::reply_pieces(parser, replies.tokenizer(), replies.tokenizer().encode(written), 2)) {
    stream.push(piece, parts);
  }
  CHECK(parts == Parts{{ReplyKind::kAnswer, written}});
}

TEST_CASE("Llama 3: JSON without marks is a call if it has the name of an offered tool") {
  const Replies replies("llama3", {"<|python_tag|>"});
  CHECK(replies.seen(R"({"name": "weather", "parameters": {"city": "Rome"}})") ==
        Seen{.calls = {{"weather", R"({"city": "Rome"})"}}});
  CHECK(replies.seen(R"( {"type": "function", "name": "now", "parameters": {}}; {"name": "now", "parameters": {}})") ==
        Seen{.calls = {{"now", "{}"}, {"now", "{}"}}});
  CHECK(replies.seen("<|python_tag|>{\"name\": \"now\", \"parameters\": {}}") == Seen{.calls = {{"now", "{}"}}});
  CHECK(replies.seen("[weather(city='Rome', days=3), now()]") ==
        Seen{.calls = {{"weather", R"({"city": "Rome", "days": 3})"}, {"now", "{}"}}});
  for (const std::string written :
       {R"({"name": "other", "parameters": {}})", R"({"name": "other"})", R"({"city": "Rome"})",
        R"({"name": "now", "a": 1})", R"(See {"name": "now", "parameters": {}})", "[other()]", "[1, 2]", "[see](now)",
        "{", "["}) {
    CAPTURE(written);
    CHECK(replies.seen(written) == Seen{.answer = written});
  }
}

TEST_CASE("Mistral: a name and JSON after each mark, or a list") {
  const std::vector<std::string> marks = {"[TOOL_CALLS]", "[ARGS]", "[THINK]", "[/THINK]"};
  for (const std::vector<std::string>& special : {marks, std::vector<std::string>()}) {
    const Replies replies("mistral", special);
    CHECK(
        replies.seen("[THINK]hm[/THINK]Sure.[TOOL_CALLS]weather[ARGS]{\"city\": \"a[ARGS]\"}[TOOL_CALLS]now[ARGS]{}") ==
        Seen{"hm", "Sure.", {{"weather", "{\"city\": \"a[ARGS]\"}"}, {"now", "{}"}}});
    const Replies lists("mistral-list", special);
    CHECK(lists.seen(R"([TOOL_CALLS] [{"name": "now", "arguments": {}, "id": "abcdefghi"}, {"name": "weather",)"
                     R"( "arguments": {"city": "]"}}])") ==
          Seen{.calls = {{"now", "{}"}, {"weather", R"({"city": "]"})"}}});
    CHECK(lists.seen(R"([TOOL_CALLS][{"name": "now", "arguments": {}}, {"name": "wea)") ==
          Seen{.answer = R"(, {"name": "wea)", .calls = {{"now", "{}"}}});
  }
  const Replies special("mistral", marks);
  CHECK(special.seen("[TOOL_CALLS]now{}") == Seen{.answer = "now{}"});
}

/// The calls that every format below is tested with.
const ToolCall kWeather = {"weather",
                           R"({"city": "a \"b\"\nc</x>", "days": 3, "options": {"k": [1, null, "z"]}, "exact": true})"};
const ToolCall kNow = {"now", "{}"};

/// Returns elements with MiniMax M3's mark for each "@".
std::string in_minimax(const std::string& written) {
  std::string marked;
  for (const char c : written) {
    if (c == '@') {
      marked += "]<]minimax[>[";
    } else {
      marked += c;
    }
  }
  return marked;
}

TEST_CASE("each format's calls, as its template writes them, with marks as special tokens and as text") {
  struct Case {
    std::string format;
    std::vector<std::string> special;  ///< marks
    std::string written;
  };
  const std::string object_text = kWeather.arguments;
  const std::string dsml = "<｜DSML｜";
  const std::string values =
      "<parameter=city>\na \"b\"\nc</x>\n</parameter>\n<parameter=days>\n3\n</parameter>\n"
      "<parameter=options>\n{\"k\": [1, null, \"z\"]}\n</parameter>\n<parameter=exact>\nTrue\n"
      "</parameter>\n</function>\n";
  const std::string seed_values =
      "<parameter=city>a \"b\"\nc</x></parameter>\n<parameter=days>3</parameter>\n"
      "<parameter=options>{'k': [1, None, 'z']}</parameter>\n<parameter=exact>True</parameter>\n"
      "</function>\n";
  const std::string list =
      "[{\"name\": \"weather\", \"arguments\": " + object_text + "}, {\"name\": \"now\", \"arguments\": {}}]";
  const std::vector<Case> cases = {
      {"hermes",
       {"<tool_call>", "</tool_call>"},
       "<tool_call>\n{\"name\": \"weather\", \"arguments\": " + object_text + "}\n</tool_call>\n" +
           "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>"},
      {"qwen3-coder",
       {"<tool_call>", "</tool_call>"},
       "<tool_call>\n<function=weather>\n" + values +
           "</tool_call>\n<tool_call>\n<function=now>\n</function>\n</tool_call>"},
      {"seed",
       {"<seed:tool_call>", "</seed:tool_call>"},
       "<seed:tool_call>\n<function=weather>\n" + seed_values +
           "</seed:tool_call>\n<seed:tool_call>\n<function=now>\n</function>\n</seed:tool_call>"},
      {"mistral",
       {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"},
       "[TOOL_CALLS]weather[CALL_ID]abcdefgh1[ARGS]" + object_text + "[TOOL_CALLS]now[ARGS]{}"},
      {"mistral", {"[TOOL_CALLS]", "[ARGS]"}, "[TOOL_CALLS]" + list},
      {"mistral-list", {"[TOOL_CALLS]", "[ARGS]"}, "[TOOL_CALLS] " + list},
      {"harmony",
       {"<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|call|>"},
       "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>" + object_text +
           "<|call|><|start|>assistant to=functions.now<|channel|>commentary json<|message|>{}<|call|>"},
      {"deepseek",
       {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>",
        "<｜tool▁calls▁end｜>"},
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n" + object_text +
           "\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n```<"
           "｜tool▁call▁end｜>"
           "<｜tool▁calls▁end｜>"},
      {"deepseek-v3.1",
       {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>",
        "<｜tool▁calls▁end｜>"},
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>" + object_text +
           "<｜tool▁call▁end｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
      {"deepseek-v3.2",
       {},
       dsml + "function_calls>\n" + dsml + "invoke name=\"weather\">\n" + dsml +
           "parameter name=\"city\" string=\"true\">a \"b\"\nc</x></｜DSML｜parameter>\n" + dsml +
           "parameter name=\"days\" string=\"false\">3</｜DSML｜parameter>\n" + dsml +
           "parameter name=\"options\" string=\"false\">{\"k\": [1, null, \"z\"]}</｜DSML｜parameter>\n" + dsml +
           "parameter name=\"exact\" string=\"false\">true</｜DSML｜parameter>\n</｜DSML｜invoke>\n" + dsml +
           "invoke name=\"now\">\n</｜DSML｜invoke>\n</｜DSML｜function_calls>"},
      {"glm",
       {"<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"},
       "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>a \"b\"\nc</x></arg_value>\n<arg_key>days</arg_key>\n"
       "<arg_value>3</arg_value>\n<arg_key>options</arg_key>\n<arg_value>{\"k\": [1, null, \"z\"]}</arg_value>\n"
       "<arg_key>exact</arg_key>\n<arg_value>true</arg_value>\n</tool_call>\n<tool_call>now\n</tool_call>"},
      {"hunyuan3",
       {"<tool_calls>", "<tool_sep>"},
       "<tool_calls>\n<tool_call>weather<tool_sep>\n<arg_key>city</arg_key>\n<arg_value>a \"b\"\nc</x></arg_value>\n"
       "<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n<arg_key>options</arg_key>\n<arg_value>{\"k\": [1, null, "
       "\"z\"]}</arg_value>\n<arg_key>exact</arg_key>\n<arg_value>true</arg_value>\n</"
       "tool_call>\n<tool_call>now<tool_sep>"
       "\n</tool_call>\n</tool_calls>"},
      {"hunyuan3-open",
       {"<tool_calls:opensource>", "<tool_sep:opensource>"},
       "<tool_calls:opensource>\n<tool_call:opensource>weather<tool_sep:opensource>\n"
       "<arg_key:opensource>city</arg_key:opensource>\n<arg_value:opensource>a \"b\"\nc</x></arg_value:opensource>\n"
       "<arg_key:opensource>days</arg_key:opensource>\n<arg_value:opensource>3</arg_value:opensource>\n"
       "<arg_key:opensource>options</arg_key:opensource>\n<arg_value:opensource>{\"k\": [1, null, \"z\"]}"
       "</arg_value:opensource>\n<arg_key:opensource>exact</arg_key:opensource>\n<arg_value:opensource>true"
       "</arg_value:opensource>\n</tool_call:opensource>\n<tool_call:opensource>now<tool_sep:opensource>\n"
       "</tool_call:opensource>\n</tool_calls:opensource>"},
      {"minimax-m1",
       {"<tool_calls>", "</tool_calls>"},
       "<tool_calls>\n{\"name\": \"weather\", \"arguments\": " + object_text +
           "}\n{\"name\": \"now\", \"arguments\": {}}\n</tool_calls>"},
      {"minimax-m3",
       {"]<]minimax[>[", "<tool_call>", "</tool_call>", "</invoke>"},
       in_minimax("@<tool_call>\n@<invoke name=\"weather\">@<city>a \"b\"\nc</x>@</city>@<days>3@</days>"
                  "@<options>@<k>@<item>1@</item>@<item>null@</item>@<item>z@</item>@</k>@</options>"
                  "@<exact>true@</exact>@</invoke>\n@<invoke name=\"now\">@</invoke>\n@</tool_call>")},
      {"minicpm",
       {},
       "<function name=\"weather\"><param name=\"city\"><![CDATA[a \"b\"\nc</x>]]></param><param "
       "name=\"days\">3</param>"
       "<param name=\"options\">{'k': [1, None, 'z']}</param><param name=\"exact\">True</param></function>\n"
       "<function name=\"now\"></function>"},
      {"gemma",
       {"<|tool_call>", "<tool_call|>", "<|\"|>"},
       "<|tool_call>call:weather{city:<|\"|>a \"b\"\nc</x><|\"|>,days:3,options:{k:[1,None,<|\"|>z<|\"|>]},exact:true}"
       "<tool_call|><|tool_call>call:now{}<tool_call|>"},
      {"kimi",
       {"<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>",
        "<|tool_calls_section_end|>"},
       "<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>" + object_text +
           "<|tool_call_end|><|tool_call_begin|>functions.now:1<|tool_call_argument_begin|>{}<|tool_call_end|>"
           "<|tool_calls_section_end|>"},
      {"minimax",
       {"<minimax:tool_call>", "</minimax:tool_call>"},
       "<minimax:tool_call>\n<invoke name=\"weather\">\n<parameter name=\"city\">a \"b\"\nc</x></parameter>\n"
       "<parameter name=\"days\">3</parameter>\n<parameter name=\"options\">{\"k\": [1, null, \"z\"]}</parameter>\n"
       "<parameter name=\"exact\">true</parameter>\n</invoke>\n<invoke name=\"now\">\n</invoke>\n</minimax:tool_call>"},
      {"granite", {"<|tool_call|>"}, "<|tool_call|>" + list},
      {"phi4",
       {"<|tool_call|>", "<|/tool_call|>"},
       "<|tool_call|>{\"name\": \"weather\", \"arguments\": " + object_text +
           "}<|/tool_call|><|tool_call|>[{\"name\": \"now\", \"arguments\": {}}]<|/tool_call|>"},
      {"nemotron", {"<TOOLCALL>", "</TOOLCALL>"}, "<TOOLCALL>" + list + "</TOOLCALL>"},
      {"hunyuan", {"<tool_calls>"}, "<tool_calls>" + list + "</tool_calls>"},
      {"lfm2",
       {"<|tool_call_start|>", "<|tool_call_end|>"},
       "<|tool_call_start|>[weather(city='a \"b\"\\nc</x>', days=3, options={'k': [1, None, 'z']}, exact=True), now()]"
       "<|tool_call_end|>"},
      {"lfm2", {"<|tool_call_start|>", "<|tool_call_end|>"}, "<|tool_call_start|>" + list + "<|tool_call_end|>"},
      {"command",
       {"<|START_ACTION|>", "<|END_ACTION|>"},
       "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"weather\", \"parameters\": " + object_text +
           "},\n    {\"tool_call_id\": \"1\", \"tool_name\": \"now\", \"parameters\": {}}\n]<|END_ACTION|>"},
      {"apertus",
       {"<|tools_prefix|>", "<|tools_suffix|>"},
       "<|tools_prefix|>[{\"weather\": " + object_text + "}, {\"now\": {}}]<|tools_suffix|>"},
      {"functionary", {}, "<function=weather>" + object_text + "</function><function=now>{}</function>"},
  };
  for (const Case& each : cases) {
    CAPTURE(each.format);
    for (const std::vector<std::string>& special : {std::vector<std::string>(), each.special}) {
      const Replies replies(each.format, special);
      CHECK(replies.seen(each.written) == Seen{.calls = {kWeather, kNow}});
      if (each.format != "harmony") {
        CHECK(replies.seen("Sure.\n\n" + each.written + "\n") == Seen{.answer = "Sure.", .calls = {kWeather, kNow}});
      }
      // Cut anywhere, text or a whole call remains.
      for (std::size_t size = 0; size < each.written.size(); ++size) {
        const std::string cut = each.written.substr(0, size);
        if (!files::is_utf8(cut)) continue;
        const Seen seen = replies.seen(cut);
        for (const ToolCall& call : seen.calls) CHECK((call == kWeather || call == kNow));
        if (special.empty() && seen.calls.empty() && each.format != "harmony") CHECK(seen.answer == cut);
      }
    }
  }
}

TEST_CASE("a parameter's text may contain its closing mark, and is typed by the schema") {
  const Replies replies("qwen3-coder");
  const auto call = [&](const std::string& name, const std::string& value) {
    const Seen seen = replies.seen("<tool_call>\n<function=weather>\n<parameter=" + name + ">\n" + value +
                                   "\n</parameter>\n</function>\n</tool_call>");
    REQUIRE(seen.calls.size() == 1);
    return nlohmann::json::parse(seen.calls.front().arguments).at(name);
  };
  CHECK(call("city", "see </parameter> and </function> and </tool_call>") ==
        "see </parameter> and </function> and </tool_call>");
  CHECK(call("city", "") == "");
  CHECK(call("city", "\n a \n") == "\n a \n");
  CHECK(call("city", "12") == "12");
  CHECK(call("city", "null") == "null");
  CHECK(call("unit", "null") == nullptr);
  CHECK(call("unit", "\"null\"") == "\"null\"");
  CHECK(call("days", "12") == 12);
  CHECK(call("days", "twelve") == "twelve");
  CHECK(call("exact", "False") == false);
  CHECK(call("hours", "[1, 'a']") == nlohmann::json{1, "a"});
  CHECK(call("unknown", "12") == 12);
  CHECK(call("unknown", "12 h") == "12 h");
}

TEST_CASE("elements are typed by the schema, and are lists where it says so") {
  const Replies replies("minimax-m3");
  const auto arguments = [&](const std::string& elements) {
    return replies.seen(in_minimax("@<tool_call>@<invoke name=\"weather\">" + elements + "@</invoke>@</tool_call>"));
  };
  const auto object = [&](const std::string& elements) {
    const Seen seen = arguments(elements);
    REQUIRE(seen.calls.size() == 1);
    return nlohmann::json::parse(seen.calls.front().arguments);
  };
  CHECK(object("@<city>12@</city>") == nlohmann::json{{"city", "12"}});
  CHECK(object("@<city>a <b> </city>@</city>") == nlohmann::json{{"city", "a <b> </city>"}});
  CHECK(object("@<city>@</city>@<options>@</options>@<hours>@</hours>") ==
        nlohmann::json{{"city", ""}, {"options", nlohmann::json::object()}, {"hours", nlohmann::json::array()}});
  CHECK(object("@<hours>@<item>1@</item>@<item>@<item>2@</item>@</item>@</hours>") ==
        nlohmann::json{{"hours", {1, {2}}}});
  CHECK(object("@<options>@<item>x@</item>@</options>") == nlohmann::json{{"options", {{"item", "x"}}}});
  CHECK(object("@<unit>null@</unit>") == nlohmann::json{{"unit", nullptr}});
  for (const char* wrong : {"@<days>1@</hours>", "@<city>a@<b>c@</b>@</city>", "@<days>1@</days>@<days>2@</days>", "x",
                            "@<hours>@<item>1@</item>@<other>2@</other>@</hours>", "@<>@</>",
                            "@<options>a@<b>c@</b>@</options>", "@</days>"}) {
    CAPTURE(wrong);
    CHECK(arguments(wrong).calls.empty());
  }
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "@<a>";
  CHECK(arguments(deep).calls.empty());
}

TEST_CASE("a value that only begins like CDATA is text") {
  const Replies replies("minicpm");
  const auto call = [&](const std::string& name, const std::string& value) {
    const Seen seen =
        replies.seen("<function name=\"weather\"><param name=\"" + name + "\">" + value + "</param></function>");
    REQUIRE(seen.calls.size() == 1);
    return nlohmann::json::parse(seen.calls.front().arguments).at(name);
  };
  CHECK(call("city", "<![CDAT") == "<![CDAT");
  CHECK(call("city", "<") == "<");
  CHECK(call("city", "") == "");
  CHECK(call("city", "<![CDATA[]]>") == "");
  CHECK(call("city", "<![CDATA[</param></function>]]>") == "</param></function>");
  CHECK(call("city", "<![CDATA[a]]>b]]>") == "a]]>b");
  CHECK(call("unknown", "<![CDATA[12]]>") == "12");
  CHECK(call("days", "12") == 12);
}

TEST_CASE("quotes within Python's strings that no template escapes are text") {
  const Replies replies("lfm2");
  const auto city = [&](const std::string& value) {
    const Seen seen = replies.seen("<|tool_call_start|>[weather(city=" + value + ", days=3)]<|tool_call_end|>");
    REQUIRE(seen.calls.size() == 1);
    return nlohmann::json::parse(seen.calls.front().arguments).at("city");
  };
  CHECK(city("'it's raining'") == "it's raining");
  CHECK(city("'a \"b\" 'c''") == "a \"b\" 'c'");
  CHECK(city("\"say \"no\" to it\"") == "say \"no\" to it");
  CHECK(city(R"('it\'s, yes')") == "it's, yes");
  CHECK(city("'a' ") == "a");
  CHECK(python_value("['a's', 'b']") == R"(["a's", "b"])");
}

TEST_CASE("types of arguments follow references and combinations of a schema") {
  const nlohmann::ordered_json schema = nlohmann::ordered_json::parse(R"({"properties": {
    "a": {"$ref": "#/$defs/word"}, "b": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "c": {"enum": ["x", 1]},
    "d": {"$ref": "#/properties/d"}, "e": {"allOf": [{"type": ["string", "integer"]}, {"type": "string"}]},
    "f": {"const": true}, "g": {"type": "string", "nullable": true}},
    "$defs": {"word": {"type": "string"}}, "additionalProperties": {"type": "number"}})");
  CHECK(argument_types(schema, "a").only_string());
  CHECK(
      (argument_types(schema, "b").string && argument_types(schema, "b").null && !argument_types(schema, "b").number));
  CHECK((argument_types(schema, "c").string && argument_types(schema, "c").number));
  CHECK(argument_types(schema, "d").object);
  CHECK(argument_types(schema, "e").only_string());
  CHECK((argument_types(schema, "f").boolean && !argument_types(schema, "f").string));
  CHECK(argument_types(schema, "g").null);
  CHECK((argument_types(schema, "h").number && !argument_types(schema, "h").string));
  CHECK(argument_types(nullptr, "h").array);
  const nlohmann::ordered_json deep = nlohmann::ordered_json::parse(R"({"properties": {
    "list": {"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#/$defs/node"}}]}},
    "$defs": {"node": {"type": "object", "properties": {"word": {"type": "string"}, "next": {"$ref": "#/$defs/node"}}},
              "loop": {"$ref": "#/$defs/loop"}}})");
  const nlohmann::ordered_json* list = member_schema(deep, deep, "list");
  REQUIRE(list != nullptr);
  REQUIRE(schema_with(*list, deep, "items") != nullptr);
  const nlohmann::ordered_json& node = (*schema_with(*list, deep, "items"))["items"];
  REQUIRE(member_schema(node, deep, "next") != nullptr);
  const nlohmann::ordered_json* word = member_schema(*member_schema(node, deep, "next"), deep, "word");
  REQUIRE(word != nullptr);
  CHECK(types_of(*word, deep).only_string());
  CHECK(member_schema(node, deep, "other") == nullptr);
  CHECK(schema_with(deep["$defs"]["loop"], deep, "items") == nullptr);
}

TEST_CASE("the format of calls is the one that the chat template writes") {
  const auto name = [](const std::string& chat_template) {
    return find_reply_format(
               *test::make_tiny_tokenizer(test::tiny_tokenizer_json(), nlohmann::json::object(), chat_template), "auto")
        .name;
  };
  CHECK(name("'<tool_call>\\n{\"name\": \"' <think>") == "hermes");
  CHECK(name("'<tool_call>\\n<function=' <think>") == "qwen3-coder");
  CHECK(name("'<tool_call>' '<arg_key>'") == "glm");
  CHECK(name("<beginning_of_sentence>ai\n<tool_calls>") == "minimax-m1");
  CHECK(name("<tool_calls>[") == "hunyuan");
  CHECK(name("']<]minimax[>[' '<tool_call>'") == "minimax-m3");
  CHECK(name("<tool_sep> <function name=\"f\"><param name=\"p\">") == "minicpm");
  CHECK(name("<tool_sep>") == "hunyuan3");
  CHECK(name("'<tool_sep{}>'.format(':opensource')") == "hunyuan3-open");
  CHECK(name("[TOOL_CALLS] [") == "mistral-list");
  CHECK(name("[TOOL_CALLS] [ARGS]") == "mistral");
  CHECK(name("<|python_tag|>") == "llama3");
  CHECK(name("<｜tool▁sep｜>' + '\\n```json") == "deepseek");
  CHECK(name("<｜tool▁sep｜>") == "deepseek-v3.1");
  CHECK(name("<|tool_call|> <|/tool_call|>") == "phi4");
  CHECK(name("<|tool_call|>") == "granite");
}

TEST_CASE("values of Python's literals are JSON") {
  CHECK(python_value("{'a': [1, None, 'z\\'\"'], \"b\": (True,)}") == R"({"a": [1, null, "z'\""], "b": [true]})");
  CHECK(python_value(" -1.5e3 ") == "-1.5e3");
  CHECK(python_value(R"('\u00e9\n\x41\ud83d\ude00')") == "\"é\\nA😀\"");
  for (const std::string wrong : {"", "'a", "[1", "{1: 2}", "a", "1 2", "{'a'}", "'\\ud83d'", "[,]", "[1,,2]"}) {
    CAPTURE(wrong);
    CHECK_FALSE(python_value(wrong).has_value());
  }
  CHECK_FALSE(python_value(std::string(100'000, '[')).has_value());
}

TEST_CASE("tools are read as OpenAI's API has them") {
  CHECK(read_tools(nullptr).empty());
  CHECK(weather_tools().size() == 2);
  CHECK(read_tools(parse_tools(R"([{"name": "f", "strict": true}])")).front().strict);
  CHECK(error_message([] { parse_tools("{}"); }) == Contains("tools: must be a JSON list"));
  CHECK(error_message([] { read_tools(parse_tools("[1]")); }) == Contains("tools[0]: must be an object"));
  CHECK(error_message([] { read_tools(parse_tools("[{}]")); }) == Contains("tools[0]: needs a function with a name"));
  CHECK(error_message([] { read_tools(parse_tools(R"([{"name": "f"}, {"name": "f"}])")); }) ==
        Contains("tools[1]: another tool is called \"f\", too"));
  CHECK(error_message([] { read_tools(parse_tools(R"([{"name": "f", "parameters": 1}])")); }) ==
        Contains("parameters must be a JSON schema"));
}

TEST_CASE("Kimi's calls end its thinking, with and without a mark") {
  const Replies replies("kimi", {"<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>",
                                 "<|tool_call_end|>", "<|tool_calls_section_end|>"});
  const std::string call =
      "<|tool_calls_section_begin|><|tool_call_begin|>functions.now:0<|tool_call_argument_begin|>{}<|tool_call_end|>"
      "<|tool_calls_section_end|>";
  CHECK(replies.seen("<think>I look" + call) == Seen{.thinking = "I look", .calls = {{"now", "{}"}}});
  CHECK(replies.seen("<think>I look</think>" + call) == Seen{.thinking = "I look", .calls = {{"now", "{}"}}});
  CHECK(replies.seen("<think>I look" + call + "Done") == Seen{"I look", "Done", {{"now", "{}"}}});
  // Calls of other formats do not.
  const Replies hermes("hermes", {"<tool_call>", "</tool_call>"});
  CHECK(hermes.seen("<think>a<tool_call>\n{\"name\": \"now\"}\n</tool_call></think>b").calls.empty());
}

}  // namespace
}  // namespace ballast::text
