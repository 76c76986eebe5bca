// Generated text on standard output while it comes, and what it took.
#ifndef BALLAST_TOOLS_COMMANDS_GENERATION_OUTPUT_H_
#define BALLAST_TOOLS_COMMANDS_GENERATION_OUTPUT_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/generate.h"
#include "tools/commands/thinking_parts.h"

namespace ballast::tools {

/// What becomes of a model's thinking on standard output.
enum class ShownThinking {
  kPlain,  ///< all text as it comes, tags included
  kDim,
  kHidden,
};

class GenerationOutput {
 public:
  /// `thinks`: the text begins within the thinking.
  explicit GenerationOutput(ShownThinking shown = ShownThinking::kPlain, bool thinks = false)
      : shown_(shown), parts_(thinks) {}

  void write(std::string_view text);

  /// Ends the text and its last line.
  void finish();

 private:
  void put(std::string_view text);
  void show(const std::vector<TextPart>& parts);

  ShownThinking shown_;
  ThinkingParts parts_;
  bool thought_ = false;  ///< the last part was thinking that is shown
  bool line_ended_ = false;
};

/// "80 tokens, 61.2 % accepted".
std::string drafted_text(std::size_t draft_tokens, std::size_t accepted_tokens);

/// "prompt: 12 tokens, 345.6 tokens/s; generated: 128 tokens, 105.3 tokens/s; drafted: 80 tokens, 61.2 % accepted".
std::string timing_line(const GenerateResult& result);

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_COMMANDS_GENERATION_OUTPUT_H_
