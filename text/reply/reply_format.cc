#include "text/reply/reply_format.h"

#include <algorithm>

#include "ballast/error.h"
#include "files/text.h"

namespace ballast::text {
namespace {

using enum ReplyState;

constexpr ReplyStates kAnywhere = {kBegin, kAnswer, kThinking, kHeader};
constexpr ReplyStates kOutside = {kBegin, kAnswer};

/// Thinking only at the beginning: an answer may mention the marks.
ReplyFormat leading_thinking(std::string_view name, std::string_view opening, std::string_view closing) {
  return {.name = name,
          .in_template = {opening, closing},
          .marks = {{opening, {kBegin}, kThinking}, {closing, {kThinking}, kAnswer}}};
}

/// gpt-oss (github.com/openai/harmony): a reply is several messages, each in a channel.
ReplyFormat harmony() {
  return {.name = "harmony",
          .in_template = {"<|channel|>"},
          .marks = {{"<|start|>", kAnywhere, kHeader},
                    {"<|channel|>", kAnywhere, kHeader},
                    {"<|message|>", {kBegin, kHeader}, std::nullopt},
                    {"<|end|>", kAnywhere, kHeader},
                    {"<|return|>", kAnywhere, kHeader},
                    {"<|call|>", kAnywhere, kHeader}},
          .channels = {{"analysis", ReplyKind::kThinking}, {"commentary", ReplyKind::kThinking}},
          .ends = {"<|return|>", "<|call|>"},
          .inner = {"<|end|>"},
          .trims = false};
}

/// Gemma 4: "<|channel>thought\n...<channel|>".
ReplyFormat gemma() {
  return {.name = "gemma",
          .in_template = {"<|channel>"},
          .marks = {{"<|channel>", kOutside, kHeader},
                    {"\n", {kHeader}, std::nullopt},
                    {"<channel|>", {kThinking, kHeader, kAnswer}, kAnswer}},
          .channels = {{"thought", ReplyKind::kThinking}}};
}

/// Command R7B and Command A; later ones write TEXT for RESPONSE.
ReplyFormat command() {
  return {.name = "command",
          .in_template = {"<|START_THINKING|>"},
          .marks = {{"<|START_THINKING|>", kOutside, kThinking},
                    {"<|END_THINKING|>", {kThinking}, kAnswer},
                    {"<|START_RESPONSE|>", kAnywhere, kAnswer},
                    {"<|END_RESPONSE|>", kAnywhere, kAnswer},
                    {"<|START_TEXT|>", kAnywhere, kAnswer},
                    {"<|END_TEXT|>", kAnywhere, kAnswer}}};
}

bool in_vocabulary(const ReplyFormat& format, const Tokenizer& tokenizer) {
  return !format.marks.empty() && std::ranges::all_of(format.marks, [&](const ReplyMark& mark) {
    return find_token(tokenizer, mark.text).has_value();
  });
}

}  // namespace

const std::vector<ReplyFormat>& reply_formats() {
  static const std::vector<ReplyFormat> formats = {
      {.name = "none"},
      harmony(),
      gemma(),
      command(),
      {.name = "mistral",
       .in_template = {"[THINK]"},
       .marks = {{"[THINK]", kOutside, kThinking}, {"[/THINK]", {kThinking}, kAnswer}}},
      leading_thinking("seed", "<seed:think>", "</seed:think>"),
      leading_thinking("thought", "<thought>", "</thought>"),
      leading_thinking("think", "<think>", "</think>"),
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
  const std::string& source = tokenizer.chat_template();
  const auto written = std::ranges::find_if(formats, [&](const ReplyFormat& format) {
    return std::ranges::any_of(format.in_template,
                               [&](std::string_view mark) { return source.find(mark) != std::string::npos; });
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
