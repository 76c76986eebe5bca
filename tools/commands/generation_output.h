// Generated text on standard output while it comes, and what it took.
#ifndef BALLAST_TOOLS_COMMANDS_GENERATION_OUTPUT_H_
#define BALLAST_TOOLS_COMMANDS_GENERATION_OUTPUT_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "ballast/generate.h"

namespace ballast::tools {

class GenerationOutput {
 public:
  void write(std::string_view text);

  /// Ends the last line.
  void finish() const;

 private:
  bool line_ended_ = false;
};

/// "80 tokens, 61.2 % accepted".
std::string drafted_text(std::size_t draft_tokens, std::size_t accepted_tokens);

/// "prompt: 12 tokens, 345.6 tokens/s; generated: 128 tokens, 105.3 tokens/s; drafted: 80 tokens, 61.2 % accepted".
std::string timing_line(const GenerateResult& result);

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_COMMANDS_GENERATION_OUTPUT_H_
