#include "tools/commands/generation_output.h"

#include <cstddef>

#include "ballast/text.h"
#include "tools/terminal/console.h"
#include "tools/terminal/units.h"

namespace ballast::tools {
namespace {

std::string speed(std::size_t tokens, double seconds) {
  const std::string text = report::counted(tokens, "token", "tokens");
  return seconds > 0 ? text + ", " + format_fixed(static_cast<double>(tokens) / seconds, 1) + " tokens/s" : text;
}

}  // namespace

void GenerationOutput::write(std::string_view text) {
  if (text.empty()) return;
  print(text);
  line_ended_ = text.ends_with('\n');
}

void GenerationOutput::finish() const {
  if (!line_ended_) print("\n");
}

std::string timing_line(const GenerateResult& result) {
  std::string line = "prompt: " + speed(result.prompt_tokens, result.prompt_seconds) +
                     "; generated: " + speed(result.tokens.size(), result.seconds);
  if (result.draft_tokens == 0) return line;
  const double accepted = static_cast<double>(result.accepted_tokens) / static_cast<double>(result.draft_tokens);
  return line + "; drafted: " + report::counted(result.draft_tokens, "token", "tokens") + ", " +
         format_percent(accepted) + " accepted";
}

}  // namespace ballast::tools
