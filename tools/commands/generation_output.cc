#include "tools/commands/generation_output.h"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>

#include "ballast/text.h"
#include "files/text.h"
#include "files/utf8.h"
#include "tools/terminal/console.h"
#include "tools/terminal/units.h"

namespace ballast::tools {
namespace {

// An escape sequence of ECMA-48.
constexpr std::string_view kDim = "\x1b[2m";
constexpr std::string_view kNormal = "\x1b[0m";

std::string speed(std::size_t tokens, double seconds) {
  const std::string text = report::counted(tokens, "token", "tokens");
  return seconds > 0 ? text + ", " + format_fixed(static_cast<double>(tokens) / seconds, 1) + " tokens/s" : text;
}

}  // namespace

void GenerationOutput::write(std::string_view text, ReplyKind kind) {
  if (kind == ReplyKind::kToolName || kind == ReplyKind::kToolArguments) return;  // see write_call()
  if (kind == ReplyKind::kBrokenCall) kind = ReplyKind::kAnswer;
  const bool thinks = kind == ReplyKind::kThinking;
  if (text.empty() || (thinks && shown_ == ShownThinking::kHidden)) return;
  if (kind != last_) begin(kind);
  const bool dim = thinks && shown_ == ShownThinking::kDim;
  if (dim) print(kDim);
  put(text);
  if (dim) print(kNormal);
}

/// Separates thinking from the answer.
void GenerationOutput::begin(ReplyKind kind) {
  last_ = kind;
  if (!line_ended_) put("\n");
  if (shown_ == ShownThinking::kPlain) put(kind == ReplyKind::kThinking ? "<think>\n" : "</think>\n\n");
}

void GenerationOutput::write_call(const ToolCall& call) {
  if (last_ != ReplyKind::kAnswer) begin(ReplyKind::kAnswer);
  if (!line_ended_) put("\n");
  const nlohmann::json name = files::replace_invalid_utf8(call.name);
  put(files::concat("{\"name\": ", name.dump(), ", \"arguments\": ", call.arguments, "}\n"));
}

void GenerationOutput::finish() {
  if (!line_ended_ || !has_text_) print("\n");
}

void GenerationOutput::put(std::string_view text) {
  print(text);
  has_text_ = true;
  line_ended_ = text.ends_with('\n');
}

std::string drafted_text(std::size_t draft_tokens, std::size_t accepted_tokens) {
  const auto most = static_cast<double>(std::max<std::size_t>(draft_tokens, 1));
  return report::counted(draft_tokens, "token", "tokens") + ", " +
         format_percent(static_cast<double>(accepted_tokens) / most) + " accepted";
}

std::string timing_line(const GenerateResult& result) {
  std::string line = "prompt: " + speed(result.prompt_tokens, result.prompt_seconds) +
                     "; generated: " + speed(result.tokens.size(), result.seconds);
  if (result.draft_tokens == 0) return line;
  return line + "; drafted: " + drafted_text(result.draft_tokens, result.accepted_tokens);
}

}  // namespace ballast::tools
