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

ReplyFormat with_calls(ReplyFormat format) {
  for (const CallSyntax& call : format.calls) {
    if (call.open.empty()) continue;  // a message's header begins it
    format.marks.push_back({call.open, call.open_is_call ? ReplyStates{kBegin} : kOutside, kCall});
  }
  return format;
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
                     .json_head = R"({"tool_call_id": "0", "tool_name": ")",
                     .json_middle = R"(", "parameters": )"}}};
}

/// Mistral since its 11th tokenizer: a name after each mark, in some models also an id.
ReplyFormat mistral() {
  return {.name = "mistral",
          .in_template = {{"[TOOL_CALLS]", "[ARGS]"}, {"[THINK]"}},
          .marks = {{"[THINK]", kOutside, kThinking}, {"[/THINK]", {kThinking}, kAnswer}},
          .calls = {{.open = "[TOOL_CALLS]", .arguments = kJson, .after_name = {"[ARGS]"}}}};
}

ReplyFormat mistral_list() {
  return {.name = "mistral-list", .in_template = {{"[TOOL_CALLS]"}}, .calls = {{.open = "[TOOL_CALLS]"}}};
}

/// Llama 3.1 and later: JSON without a mark or after one, or Python.
ReplyFormat llama3() {
  return {.name = "llama3",
          .in_template = {{"<|start_header_id|>", R"("parameters": )"}, {"<|python_tag|>"}},
          .calls = {{.open = "{",
                     .open_is_call = true,
                     .next = "\n;",
                     .offered_only = true,
                     .json_middle = R"(", "parameters": )"},
                    {.open = "<|python_tag|>", .next = "\n;"},
                    {.open = "[",
                     .open_is_call = true,
                     .arguments = kPython,
                     .first = "[",
                     .next = "\n,",
                     .close = "\n]",
                     .after_name = {"("},
                     .offered_only = true}}};
}

/// Qwen2.5, Qwen3, Hermes, Granite 4 and others.
ReplyFormat hermes() {
  return {.name = "hermes",
          .in_template = {{"<tool_call>"}},
          .marks = leading_thinking(),
          .calls = {{.open = "<tool_call>", .after_arguments = "\n</tool_call>"}}};
}

bool in_vocabulary(const ReplyFormat& format, const Tokenizer& tokenizer) {
  return !format.marks.empty() && format.marks.front().next != kCall &&
         std::ranges::all_of(format.marks,
                             [&](const ReplyMark& mark) { return find_token(tokenizer, mark.text).has_value(); });
}

}  // namespace

const std::vector<ReplyFormat>& reply_formats() {
  static const std::vector<ReplyFormat> formats = {
      {.name = "none"},
      with_calls(harmony()),
      with_calls(gemma()),
      with_calls(command()),
      with_calls(mistral()),
      with_calls(mistral_list()),
      {.name = "seed", .in_template = {{"<seed:think>"}}, .marks = leading_thinking("<seed:think>", "</seed:think>")},
      with_calls(llama3()),
      with_calls(hermes()),
      {.name = "thought", .in_template = {{"<thought>"}}, .marks = leading_thinking("<thought>", "</thought>")},
      {.name = "think", .in_template = {{"<think>"}, {"</think>"}}, .marks = leading_thinking()},
  };
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
