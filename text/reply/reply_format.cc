#include "text/reply/reply_format.h"

#include <algorithm>

#include "ballast/error.h"
#include "files/text.h"

namespace ballast::text {
namespace {

using enum ReplyState;

constexpr ReplyStates kAnywhere = {kBegin, kAnswer, kThinking, kHeader};
constexpr ReplyStates kOutside = {kBegin, kAnswer};

using enum CallArguments;

/// Thinking only at the beginning: an answer may mention the marks.
std::vector<ReplyMark> leading_thinking(std::string_view opening = "<think>", std::string_view closing = "</think>") {
  return {{opening, {kBegin}, kThinking}, {closing, {kThinking}, kAnswer}};
}

void add_call_marks(ReplyFormat& format) {
  for (const CallSyntax& call : format.calls) {
    if (call.open.empty()) continue;  // a message's header begins it
    if (std::ranges::find(format.marks, call.open, &ReplyMark::text) != format.marks.end()) continue;
    ReplyStates states = call.open_is_call ? ReplyStates{kBegin} : kOutside;
    if (call.ends_thinking) states = {kBegin, kAnswer, kThinking};
    format.marks.push_back({call.open, states, kCall});
  }
}

/// gpt-oss (github.com/openai/harmony): a reply is several messages, each in a channel or to a tool.
ReplyFormat harmony() {
  return {.name = "harmony",
          .in_template = {{"<|channel|>"}},
          .marks = {{"<|start|>", kAnywhere, kHeader},
                    {"<|channel|>", kAnywhere, kHeader},
                    {"<|message|>", {kBegin, kHeader}, std::nullopt},
                    {"<|end|>", kAnywhere, kHeader},
                    {"<|return|>", kAnywhere, kHeader},
                    {"<|call|>", kAnywhere, kHeader}},
          .channels = {{"analysis", ReplyKind::kThinking}, {"commentary", ReplyKind::kThinking}},
          .ends = {"<|return|>", "<|call|>"},
          .inner = {"<|end|>"},
          .trims = false,
          .calls = {{.arguments = kJson}},
          .recipient = "to=functions."};
}

/// Gemma 4: "<|channel>thought\n...<channel|>"; the result of a tool follows "<|tool_response>".
ReplyFormat gemma() {
  return {.name = "gemma",
          .in_template = {{"<|channel>"}},
          .marks = {{"<|channel>", kOutside, kHeader},
                    {"\n", {kHeader}, std::nullopt},
                    {"<channel|>", {kThinking, kHeader, kAnswer}, kAnswer}},
          .channels = {{"thought", ReplyKind::kThinking}},
          .ends = {"<|tool_response>"},
          .calls = {{.open = "<|tool_call>",
                     .arguments = kGemma,
                     .first = "call:",
                     .after_name = {"{"},
                     .after_arguments = "<tool_call|>"}}};
}

/// Command R7B and Command A; later ones write TEXT for RESPONSE.
ReplyFormat command() {
  return {.name = "command",
          .in_template = {{"<|START_THINKING|>"}, {"<|START_ACTION|>"}},
          .marks = {{"<|START_THINKING|>", kOutside, kThinking},
                    {"<|END_THINKING|>", {kThinking}, kAnswer},
                    {"<|START_RESPONSE|>", kAnywhere, kAnswer},
                    {"<|END_RESPONSE|>", kAnywhere, kAnswer},
                    {"<|START_TEXT|>", kAnywhere, kAnswer},
                    {"<|END_TEXT|>", kAnywhere, kAnswer}},
          .calls = {{.open = "<|START_ACTION|>",
                     .close = "\n<|END_ACTION|>",
                     .writes_list = true,
                     .json_head = R"({"tool_call_id": "0", "tool_name": ")",
                     .json_middle = R"(", "parameters": )"}}};
}

/// Mistral since its 11th tokenizer: a name after each mark, in some models also an id.
ReplyFormat mistral() {
  return {.name = "mistral",
          .in_template = {{"[TOOL_CALLS]", "[ARGS]"}, {"[THINK]"}},
          .marks = {{"[THINK]", kOutside, kThinking}, {"[/THINK]", {kThinking}, kAnswer}},
          .calls = {{.open = "[TOOL_CALLS]", .arguments = kJson, .after_name = {"[ARGS]"}, .before_id = "[CALL_ID]"},
                    {.open = "[TOOL_CALLS]", .writes_list = true}}};
}

/// Mistral's earlier models.
ReplyFormat mistral_list() {
  ReplyFormat format = mistral();
  format.name = "mistral-list";
  format.in_template = {{"[TOOL_CALLS]"}};
  std::ranges::reverse(format.calls);
  return format;
}

/// Llama 3.1 and later: JSON without a mark or after one, or Python.
ReplyFormat llama3() {
  return {.name = "llama3",
          .in_template = {{"<|start_header_id|>", R"("parameters": )"}, {"<|python_tag|>"}},
          .calls = {{.open = "{",
                     .open_is_call = true,
                     .next = "\t;",
                     .offered_only = true,
                     .json_middle = R"(", "parameters": )"},
                    {.open = "<|python_tag|>", .next = "\t;"},
                    {.open = "[",
                     .open_is_call = true,
                     .arguments = kPython,
                     .first = "[",
                     .next = "\t,",
                     .close = "\t]",
                     .after_name = {"("},
                     .offered_only = true}}};
}

constexpr CallSyntax kHermesCall = {.open = "<tool_call>", .first = "\n", .after_arguments = "\n</tool_call>"};

/// Qwen2.5, Qwen3, Hermes, Granite 4 and others. Small models often leave the marks out, write a block of code instead,
/// or copy the template's double braces.
ReplyFormat hermes() {
  constexpr std::string_view kBlock = "```json";
  return {.name = "hermes",
          .in_template = {{"<tool_call>"}},
          .marks = leading_thinking(),
          .calls = {kHermesCall,
                    {.open = kHermesCall.open, .first = "\n{", .after_arguments = "}\n</tool_call>"},
                    {.open = kBlock, .after_arguments = "\n```", .offered_only = true},
                    {.open = kBlock, .first = "\n{", .after_arguments = "}\n```", .offered_only = true},
                    {.open = "{", .open_is_call = true, .offered_only = true},
                    {.open = "{", .open_is_call = true, .first = "{", .after_arguments = "}", .offered_only = true}}};
}

/// Qwen3-Coder, Qwen3.5, Nemotron 3, Step 3.5.
ReplyFormat qwen3_coder() {
  return {.name = "qwen3-coder",
          .in_template = {{"<tool_call>", "<function="}},
          .marks = leading_thinking(),
          .calls = {{.open = "<tool_call>",
                     .arguments = kParameters,
                     .first = "\n<function=",
                     .after_name = {">"},
                     .after_arguments = "\n</tool_call>",
                     .parameters = {.open = "\n<parameter=",
                                    .name_ends = {{">"}},
                                    .close = "</parameter>",
                                    .end = "\n</function>",
                                    .own_lines = true}},
                    kHermesCall}};
}

ReplyFormat seed() {
  return {
      .name = "seed",
      .in_template = {{"<seed:tool_call>"}, {"<seed:think>"}},
      .marks = leading_thinking("<seed:think>", "</seed:think>"),
      .calls = {{.open = "<seed:tool_call>",
                 .arguments = kParameters,
                 .first = "\n<function=",
                 .after_name = {">"},
                 .after_arguments = "\n</seed:tool_call>",
                 .parameters = {
                     .open = "\n<parameter=", .name_ends = {{">"}}, .close = "</parameter>", .end = "\n</function>"}}}};
}

ReplyFormat minimax() {
  return {.name = "minimax",
          .in_template = {{"<minimax:tool_call>"}},
          .marks = leading_thinking(),
          .calls = {{.open = "<minimax:tool_call>",
                     .arguments = kParameters,
                     .first = "\n<invoke name=\"",
                     .next = "\n<invoke name=\"",
                     .close = "\n</minimax:tool_call>",
                     .after_name = {"\">"},
                     .parameters = {.open = "\n<parameter name=\"",
                                    .name_ends = {{"\">"}},
                                    .close = "</parameter>",
                                    .end = "\n</invoke>"}}}};
}

/// MiniMax M1 and its kin: an object on each line.
ReplyFormat minimax_m1() {
  return {
      .name = "minimax-m1",
      .in_template = {{"<beginning_of_sentence>", "<tool_calls>"}},
      .marks = leading_thinking(),
      .calls = {
          {.open = "<tool_calls>", .first = "\n", .next = "\n{", .next_is_call = true, .close = "\n</tool_calls>"}}};
}

/// MiniMax M3 closes its thinking also if it has not begun any.
ReplyFormat minimax_m3() {
  constexpr std::string_view kMark = "]<]minimax[>[";
  return {.name = "minimax-m3",
          .in_template = {{kMark}},
          .marks = {{"<mm:think>", {kBegin}, kThinking}, {"</mm:think>", {kBegin, kThinking}, kAnswer}},
          .calls = {{.open = kMark,
                     .arguments = kElements,
                     .first = "<tool_call>\n]<]minimax[>[<invoke name=\"",
                     .next = "\n]<]minimax[>[<invoke name=\"",
                     .close = "\n]<]minimax[>[</tool_call>",
                     .after_name = {"\">"},
                     .elements = {.mark = kMark, .end = "/invoke"}}}};
}

/// MiniCPM 5.
ReplyFormat minicpm() {
  return {.name = "minicpm",
          .in_template = {{"<function name=\"", "<param name=\""}},
          .marks = leading_thinking(),
          .calls = {{.open = "<function name=\"",
                     .arguments = kParameters,
                     .after_name = {"\">"},
                     .parameters = {.open = "\t<param name=\"",
                                    .name_ends = {{"\">"}},
                                    .close = "</param>",
                                    .end = "\t</function>",
                                    .in_cdata = true}}}};
}

constexpr std::string_view kGlmNameEnd = "</arg_key>\n<arg_value>";

/// GLM 4.5 and later.
ReplyFormat glm() {
  return {.name = "glm",
          .in_template = {{"<arg_key>"}},
          .marks = leading_thinking(),
          .calls = {{.open = "<tool_call>",
                     .arguments = kParameters,
                     .parameters = {.open = "\n<arg_key>",
                                    .name_ends = {{kGlmNameEnd}},
                                    .close = "</arg_value>",
                                    .end = "\n</tool_call>"}}}};
}

/// Hunyuan 3. The open models' template writes a word into each mark.
ReplyFormat hunyuan3(bool in_open_models) {
  const auto mark = [&](std::string_view plain, std::string_view open) { return in_open_models ? open : plain; };
  const std::string_view call = mark("\n<tool_call>", "\n<tool_call:opensource>");
  return {.name = mark("hunyuan3", "hunyuan3-open"),
          .in_template = {in_open_models ? TemplateTexts{"<tool_sep{}>", ":opensource"} : TemplateTexts{"<tool_sep>"}},
          .marks = leading_thinking(mark("<think>", "<think:opensource>"), mark("</think>", "</think:opensource>")),
          .calls = {{.open = mark("<tool_calls>", "<tool_calls:opensource>"),
                     .arguments = kParameters,
                     .first = call,
                     .next = call,
                     .close = mark("\n</tool_calls>", "\n</tool_calls:opensource>"),
                     .after_name = {mark("<tool_sep>", "<tool_sep:opensource>")},
                     .parameters = {.open = mark("\n<arg_key>", "\n<arg_key:opensource>"),
                                    .name_ends = {{mark(kGlmNameEnd, "</arg_key:opensource>\n<arg_value:opensource>")}},
                                    .close = mark("</arg_value>", "</arg_value:opensource>"),
                                    .end = mark("\n</tool_call>", "\n</tool_call:opensource>")}}}};
}

/// Kimi K2. Its thinking models call tools without a mark at the end of their thinking.
ReplyFormat kimi() {
  return {.name = "kimi",
          .in_template = {{"<|tool_calls_section_begin|>"}},
          .marks = leading_thinking(),
          .calls = {{.open = "<|tool_calls_section_begin|>",
                     .arguments = kJson,
                     .first = "\t<|tool_call_begin|>",
                     .next = "\t<|tool_call_begin|>",
                     .close = "\t<|tool_calls_section_end|>",
                     .after_name = {"\t<|tool_call_argument_begin|>"},
                     .after_arguments = "\t<|tool_call_end|>",
                     .name_prefix = "functions.",
                     .numbers_names = true,
                     .ends_thinking = true}}};
}

/// DeepSeek V3 and R1.
ReplyFormat deepseek() {
  return {.name = "deepseek",
          .in_template = {{"<｜tool▁sep｜>", "```json"}},
          .marks = leading_thinking(),
          .calls = {{.open = "<｜tool▁calls▁begin｜>",
                     .arguments = kJson,
                     .first = "\t<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
                     .next = "\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
                     .close = "\t<｜tool▁calls▁end｜>",
                     .after_name = {"\n```json\n"},
                     .after_arguments = "\n```\t<｜tool▁call▁end｜>"}}};
}

ReplyFormat deepseek_v3_1() {
  return {.name = "deepseek-v3.1",
          .in_template = {{"<｜tool▁sep｜>"}},
          .marks = leading_thinking(),
          .calls = {{.open = "<｜tool▁calls▁begin｜>",
                     .arguments = kJson,
                     .first = "\t<｜tool▁call▁begin｜>",
                     .next = "\t<｜tool▁call▁begin｜>",
                     .close = "\t<｜tool▁calls▁end｜>",
                     .after_name = {"<｜tool▁sep｜>"},
                     .after_arguments = "\t<｜tool▁call▁end｜>"}}};
}

/// DeepSeek V3.2 and V4, which differ in the mark around all calls.
ReplyFormat deepseek_dsml(std::string_view name, const TemplateTexts& in_template, std::string_view open,
                          std::string_view close) {
  constexpr std::string_view kInvoke = "\n<｜DSML｜invoke name=\"";
  return {.name = name,
          .in_template = {in_template},
          .marks = leading_thinking(),
          .calls = {{.open = open,
                     .arguments = kParameters,
                     .first = kInvoke,
                     .next = kInvoke,
                     .close = close,
                     .after_name = {"\">"},
                     .parameters = {.open = "\n<｜DSML｜parameter name=\"",
                                    .name_ends = {{"\" string=\"true\">", true}, {"\" string=\"false\">", false}},
                                    .close = "</｜DSML｜parameter>",
                                    .end = "\n</｜DSML｜invoke>"}}}};
}

ReplyFormat lfm2() {
  return {.name = "lfm2",
          .in_template = {{"<|tool_call_start|>"}, {"<|tool_list_start|>"}, {"List of tools: ["}},
          .marks = leading_thinking(),
          .calls = {{.open = "<|tool_call_start|>",
                     .arguments = kPython,
                     .first = "\t[",
                     .next = "\t,",
                     .close = "\t]\t<|tool_call_end|>",
                     .after_name = {"("}},
                    {.open = "<|tool_call_start|>", .close = "\t<|tool_call_end|>", .writes_list = true}}};
}

/// JSON, one object or a list, after a mark.
ReplyFormat marked_json(std::string_view name, std::vector<TemplateTexts> in_template, std::string_view open,
                        std::string_view close = "", bool writes_list = true) {
  return {.name = name,
          .in_template = std::move(in_template),
          .marks = leading_thinking(),
          .calls = {{.open = open, .close = close, .writes_list = writes_list}}};
}

ReplyFormat apriel() {
  return {.name = "apriel",
          .in_template = {{"[BEGIN FINAL RESPONSE]"}},
          .marks = leading_thinking("Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"),
          .calls = {{.open = "<tool_calls>", .close = "\t</tool_calls>", .writes_list = true}}};
}

ReplyFormat apertus() {
  return {.name = "apertus",
          .in_template = {{"<|tools_prefix|>"}},
          .marks = {{"<|inner_prefix|>", kOutside, kThinking}, {"<|inner_suffix|>", {kThinking}, kAnswer}},
          .calls = {{.open = "<|tools_prefix|>", .arguments = kJsonByName, .close = "\t<|tools_suffix|>"}}};
}

ReplyFormat functionary() {
  return {
      .name = "functionary",
      .in_template = {{"<function=", "</function>"}},
      .calls = {{.open = "<function=", .arguments = kJson, .after_name = {">"}, .after_arguments = "\t</function>"}}};
}

bool in_vocabulary(const ReplyFormat& format, const Tokenizer& tokenizer) {
  if (format.marks.empty() || format.marks.front().next == kCall) return false;
  return std::ranges::all_of(format.marks, [&](const ReplyMark& mark) {
    const auto call = std::ranges::find(format.calls, mark.text, &CallSyntax::open);
    return (call != format.calls.end() && call->offered_only) || find_token(tokenizer, mark.text);
  });
}

}  // namespace

const std::vector<ReplyFormat>& reply_formats() {
  // Of several that a template may be in, the first one is its format: those with more particular texts come first.
  static const std::vector<ReplyFormat> formats = [] {
    std::vector<ReplyFormat> all = {
        {.name = "none"},
        harmony(),
        gemma(),
        command(),
        mistral(),
        mistral_list(),
        kimi(),
        deepseek(),
        deepseek_v3_1(),
        deepseek_dsml("deepseek-v3.2", {"｜DSML｜", "function_calls>"}, "<｜DSML｜function_calls>",
                      "\n</｜DSML｜function_calls>"),
        deepseek_dsml("deepseek-v4", {"｜DSML｜"}, "<｜DSML｜tool_calls>", "\n</｜DSML｜tool_calls>"),
        minimax(),
        minimax_m1(),
        minimax_m3(),
        minicpm(),
        seed(),
        hunyuan3(false),
        hunyuan3(true),
        glm(),
        qwen3_coder(),
        lfm2(),
        apriel(),
        marked_json("phi4", {{"<|/tool_call|>"}}, "<|tool_call|>", "\t<|/tool_call|>", false),
        marked_json("granite", {{"<|tool_call|>"}}, "<|tool_call|>"),
        marked_json("nemotron", {{"<TOOLCALL>"}}, "<TOOLCALL>", "\t</TOOLCALL>"),
        marked_json("hunyuan", {{"<tool_calls>"}}, "<tool_calls>", "\t</tool_calls>"),
        marked_json("gigachat", {{"<|function_call|>"}}, "<|function_call|>", "", false),
        apertus(),
        functionary(),
        llama3(),
        hermes(),
        {.name = "thought", .in_template = {{"<thought>"}}, .marks = leading_thinking("<thought>", "</thought>")},
        {.name = "think", .in_template = {{"<think>"}, {"</think>"}}, .marks = leading_thinking()},
    };
    for (ReplyFormat& format : all) add_call_marks(format);
    return all;
  }();
  return formats;
}

std::vector<std::string> reply_format_names() {
  std::vector<std::string> names = {std::string(kAutoReplyFormat)};
  for (const ReplyFormat& format : reply_formats()) names.emplace_back(format.name);
  return names;
}

const ReplyFormat& find_reply_format(const Tokenizer& tokenizer, std::string_view name) {
  const std::vector<ReplyFormat>& formats = reply_formats();
  if (name != kAutoReplyFormat) {
    const auto named = std::ranges::find(formats, name, &ReplyFormat::name);
    if (named != formats.end()) return *named;
    std::string message = files::concat(files::in_quotes(name), " is not known: use auto");
    for (const ReplyFormat& format : formats) message.append(", ").append(format.name);
    throw Error("reply format", message);
  }
  const std::string sources = tokenizer.chat_template() + tokenizer.tool_chat_template();
  const auto is_in_sources = [&](std::string_view text) { return sources.contains(text); };
  const auto written = std::ranges::find_if(formats, [&](const ReplyFormat& format) {
    return std::ranges::any_of(format.in_template,
                               [&](const TemplateTexts& texts) { return std::ranges::all_of(texts, is_in_sources); });
  });
  if (written != formats.end()) return *written;
  const auto known =
      std::ranges::find_if(formats, [&](const ReplyFormat& format) { return in_vocabulary(format, tokenizer); });
  return known != formats.end() ? *known : formats.front();
}

bool can_think(const ReplyFormat& format) {
  return std::ranges::any_of(format.marks, [](const ReplyMark& mark) { return mark.next == ReplyState::kThinking; }) ||
         std::ranges::any_of(format.channels,
                             [](const ReplyChannel& channel) { return channel.kind == ReplyKind::kThinking; });
}

std::optional<int> find_token(const Tokenizer& tokenizer, std::string_view text) {
  try {
    const std::vector<int> ids = tokenizer.encode(text);
    if (ids.size() == 1 && tokenizer.token_bytes(ids.front()) == text) return ids.front();
  } catch (const Error&) {  // the embedding has no row for the token, so the model cannot write it
    return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace ballast::text
