// Prints generated text as it is generated, and its timing.
#ifndef BALLAST_TOOLS_COMMANDS_GENERATION_OUTPUT_H_
#define BALLAST_TOOLS_COMMANDS_GENERATION_OUTPUT_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "ballast/chat.h"
#include "ballast/generate.h"

namespace ballast::tools {

/// How a model's thinking is shown on standard output.
enum class ShownThinking {
  kPlain,  ///< between lines <think> and </think>, for any marks of the model
  kDim,
  kHidden,
};

class GenerationOutput {
 public:
  explicit GenerationOutput(ShownThinking shown = ShownThinking::kPlain) : shown_(shown) {}

  /// Prints text, and nothing of calls.
  void write(std::string_view text, ReplyKind kind);

  /// Prints a call of a tool as a line of JSON.
  void write_call(const ToolCall& call);

  /// Ends the text and its last line.
  void finish();

 private:
  void put(std::string_view text);
  void begin(ReplyKind kind);

  ShownThinking shown_;
  ReplyKind last_ = ReplyKind::kAnswer;  ///< kind of the last printed text
  bool line_ended_ = true;
  bool has_text_ = false;
};

/// Returns "80 tokens, 61.2 % accepted".
std::string drafted_text(std::size_t draft_tokens, std::size_t accepted_tokens);

/// Returns "prompt: 12 tokens, 345.6 tokens/s; generated: 128 tokens, 105.3 tokens/s; drafted: 80 tokens, 61.2 %
/// accepted".
std::string timing_line(const GenerateResult& result);

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_COMMANDS_GENERATION_OUTPUT_H_
