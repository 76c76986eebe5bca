// From logits to shown text: the choice of tokens, their log-probabilities, whole characters, thinking and answer, stop
// strings.
#ifndef BALLAST_ENGINE_CONTINUATION_H_
#define BALLAST_ENGINE_CONTINUATION_H_

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ballast/chat.h"
#include "ballast/generate.h"
#include "engine/sampling.h"
#include "text/reply/reply_parser.h"
#include "text/text_stream.h"
#include "text/tokenizer.h"

namespace ballast::engine {

/// How one text goes on. Belongs to one thread at a time.
class Continuation {
 public:
  /// `stop_tokens` end the text besides the tokenizer's own, which must outlive this, and those of the reply's format.
  /// Without a tokenizer (null) there are tokens and no text. Throws Error when an option is out of its range, or needs
  /// a tokenizer.
  Continuation(const text::Tokenizer* tokenizer, const std::vector<int>& stop_tokens, text::StreamDecoder::Begin begin,
               const text::ReplyParser& reply, const GenerateOptions& options);

  /// Counts the tokens of the prompt, for the penalties.
  void see(std::span<const int> prompt);

  /// Chooses the next token by a row of logits and takes it in. Throws Error when the logits are not finite.
  GeneratedToken next(std::span<const float> logits);

  /// Text that has become certain since the last take_parts() or clear_parts(): neighbours differ in kind.
  const std::vector<ReplyPart>& parts() const { return parts_; }
  std::vector<ReplyPart> take_parts() { return std::exchange(parts_, {}); }
  void clear_parts() { parts_.clear(); }

  /// Whether a stop token or a stop string has come.
  bool stopped() const { return stopped_; }

  /// Makes the text certain that was held back for a stop string or a character to become whole.
  void finish();

 private:
  bool ends_text(int token) const { return std::ranges::find(ends_, token) != ends_.end(); }
  void add_to_text(int token);
  void show_pieces();

  const text::Tokenizer* tokenizer_;
  std::optional<std::size_t> logprobs_;
  std::vector<int> ends_;  ///< tokens that end the text
  Sampler sampler_;
  std::optional<text::StreamDecoder> decoder_;
  text::ReplyParser reply_;
  text::TextStream stream_;
  bool show_stop_;
  bool show_special_tokens_;
  std::vector<text::ReplyPiece> pieces_;  ///< of one token, on their way from the parser to the stream
  std::vector<ReplyPart> parts_;
  bool stopped_ = false;
};

}  // namespace ballast::engine

#endif  // BALLAST_ENGINE_CONTINUATION_H_
