// Turns logits into shown text: chooses tokens, decodes whole characters, separates thinking from the answer, and finds
// stop strings.
#ifndef BALLAST_ENGINE_OUTPUT_PROCESSOR_H_
#define BALLAST_ENGINE_OUTPUT_PROCESSOR_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ballast/chat.h"
#include "ballast/generate.h"
#include "engine/sampling.h"
#include "engine/sequence.h"
#include "text/constraint/constraint_compiler.h"
#include "text/reply/reply_parser.h"
#include "text/text_stream.h"
#include "text/tokenizer.h"

namespace ballast::engine {

/// Processes the output of one text: samples tokens and turns them into text. Belongs to one thread at a time.
class OutputProcessor {
 public:
  /// `stop_tokens` end the text, in addition to those of the tokenizer, which must outlive this object, and those of
  /// the reply's format. Without a tokenizer (null) there are tokens and no text. `constraint` is GenerateOptions',
  /// compiled (LoadedModel::compile()); null: none. Throws Error if an option is out of its range, or needs a
  /// tokenizer.
  OutputProcessor(const text::Tokenizer* tokenizer, const std::vector<int>& stop_tokens,
                  text::StreamDecoder::Begin begin, const text::ReplyParser& reply, const GenerateOptions& options,
                  std::shared_ptr<const text::CompiledConstraint> constraint = nullptr);

  /// Counts the tokens of the prompt, for the penalties.
  void see(std::span<const int> prompt);

  /// Samples the next token from a row of logits and processes it. Throws Error if the logits are not finite, and
  /// NoTokenError.
  GeneratedToken next(std::span<const float> logits);

  /// Samples the tokens that the logits of a step choose whose last tokens are `draft`: one, and one more for each
  /// accepted draft token, until the text stops. Passes each to `take`, which returns whether the text goes on, and
  /// removes the other draft tokens from the sequence. Returns the number of accepted ones.
  template <class Take>
  std::size_t next_tokens(Sequence& sequence, std::span<const int> draft, const Take& take) {
    const std::size_t vocab_size = sequence.logits().size() / (draft.size() + 1);
    std::size_t accepted = 0;
    for (;; ++accepted) {
      GeneratedToken token = next(sequence.logits().subspan(accepted * vocab_size, vocab_size));
      const int id = token.id;
      if (!take(std::move(token)) || stopped_ || accepted == draft.size() || id != draft[accepted]) break;
    }
    if (!draft.empty()) sequence.cut_back(sequence.ids().size() - draft.size() + accepted);
    return accepted;
  }

  /// Returns how many of the first tokens of a draft the constraint allows to come next.
  std::size_t count_allowed(std::span<const int> draft);

  /// Returns tokens whose text the constraint leaves no choice about; the model may choose other tokens for that text.
  /// Empty without a constraint. Valid until the next call.
  std::span<const int> forced_tokens();

  /// Returns the text that has become certain since the last take_parts() or clear_parts(): neighbours differ in kind.
  const std::vector<ReplyPart>& parts() const { return parts_; }
  std::vector<ReplyPart> take_parts() { return std::exchange(parts_, {}); }
  void clear_parts() { parts_.clear(); }

  /// Returns whether a stop token or a stop string was found.
  bool stopped() const { return stopped_; }

  /// Returns the stop string that was found; empty if there was none.
  const std::string& stop_string() const { return stream_.stop_string(); }

  /// Releases the text that was held back for a stop string or an incomplete character.
  void finish();

 private:
  bool ends_text(int token) const { return std::ranges::find(ends_, token) != ends_.end(); }
  std::span<const std::uint32_t> mask();
  void advance(int token);
  bool is_complete();
  void add_to_text(int token);
  void show_pieces();

  const text::Tokenizer* tokenizer_;
  std::optional<std::size_t> logprobs_;
  std::vector<int> ends_;  ///< tokens that end the text
  std::optional<text::ConstraintMatcher> matcher_;
  std::vector<int> complete_ends_;  ///< with a constraint: tokens that end it
  bool ignores_eos_;
  std::size_t min_tokens_;
  std::size_t taken_ = 0;            ///< number of tokens
  std::vector<std::uint32_t> mask_;  ///< the constraint's without tokens that end the text
  std::optional<int> last_;          ///< the last token
  std::vector<int> forced_;
  Sampler sampler_;
  std::optional<text::StreamDecoder> decoder_;
  text::ReplyParser reply_;
  text::TextStream stream_;
  bool show_stop_;
  bool show_special_tokens_;
  std::vector<text::ReplyPiece> pieces_;  ///< of one token, passed from the parser to the stream
  std::vector<ReplyPart> parts_;
  bool stopped_ = false;
};

}  // namespace ballast::engine

#endif  // BALLAST_ENGINE_OUTPUT_PROCESSOR_H_
