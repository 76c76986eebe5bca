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

void GenerationOutput::finish() {
  if (!line_ended_) print("\n");
}

std::string timing_line(const GenerateResult& result) {
  return "prompt: " + speed(result.prompt_tokens, result.prompt_seconds) +
         "; generated: " + speed(result.tokens.size(), result.seconds);
}

}  // namespace ballast::tools
