// Generating text: prompts in, tokens out, one after the other.
#ifndef BALLAST_GENERATE_H_
#define BALLAST_GENERATE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/cache.h"
#include "ballast/chat.h"
#include "ballast/model.h"

namespace ballast {

/// What is added to a token's logit.
struct LogitBias {
  int id = 0;
  float bias = 0;  ///< -100 to 100
};

struct GenerateOptions {
  std::size_t max_tokens = 128;
  double temperature = 0;  ///< 0: the most likely token always
  std::size_t top_k = 0;   ///< 0: no limit
  double top_p = 1;
  double min_p = 0;  ///< at most 1: tokens less likely than this part of the likeliest one are not chosen
  /// 0.01 to 100 (Keskar et al. 2019): divides positive logits of tokens that the prompt or the answer has.
  double repetition_penalty = 1;
  double presence_penalty = 0;   ///< -2 to 2: subtracted from the logits of tokens that the answer has
  double frequency_penalty = 0;  ///< -2 to 2: the same for each time that it has them
  /// The three penalties count the last so many tokens of prompt and answer together; 0: none. Absent: as said above.
  std::optional<std::size_t> penalty_window{};
  std::vector<LogitBias> logit_bias{};
  std::vector<int> allowed_tokens{};  ///< only these tokens are chosen; empty: all tokens
  /// Sequences of tokens that the answer never has: the last token of a sequence is not chosen after the others.
  std::vector<std::vector<int>> forbidden_sequences{};
  std::uint64_t seed = 0;  ///< the same gives the same tokens, on machines with the same instruction set
  /// Generation ends before any of these, in thinking, too. The text of a special token is found too, although it is
  /// not shown.
  std::vector<std::string> stop{};
  std::vector<int> stop_tokens{};    ///< and after any of these, besides the model's own
  bool ignore_eos = false;           ///< the model's own do not end a text
  bool show_stop = false;            ///< the stop string, or the token, that ended the text is a part of it
  bool show_special_tokens = false;  ///< the text has special tokens, too
  std::size_t min_tokens = 0;        ///< before so many no token that ends a text is chosen; stop strings count always
  /// Speculative decoding: at most so many tokens are drafted, from what the text repeats or by a draft model, and
  /// checked in one step where that pays. What is generated stays the same, whatever the temperature. At most 64;
  /// 0: none
  std::size_t draft_tokens = 8;
  std::optional<std::size_t> logprobs{};  ///< tell each token's log-probability, and so many of the most likely ones
  /// Of a chat: a JSON object whose members the template sees, {"enable_thinking": false} for some.
  std::string template_arguments{};
  /// Of a chat: how the model marks its thinking (text/reply/reply_format.h: "think", "harmony" ...); "auto": as its
  /// chat template does; "none": everything is the answer.
  std::string reply_format = "auto";
  CacheOptions cache{};
};

/// Takes the values over that the model's makers give: GenerateOptions for a chat before a user changes some.
void set_defaults(const GenerationDefaults& defaults, GenerateOptions& options);

/// A token and the natural logarithm of its probability by the model's logits, before temperature and penalties.
struct TokenLogprob {
  int id = 0;
  double logprob = 0;
};

struct GeneratedToken {
  int id = 0;
  double logprob = 0;             ///< with GenerateOptions::logprobs, else 0
  std::vector<TokenLogprob> top;  ///< the most likely ones, the likeliest first
  std::size_t rank = 0;           ///< 1 for the most likely token, ...; 0: not computed
};

struct GenerateResult {
  enum class Finish { kStop, kLength, kCancelled };
  Finish finish = Finish::kLength;
  std::string text;                    ///< of a chat the answer alone
  std::string thinking;                ///< of a chat: what the model wrote for itself, without the marks around it
  std::vector<GeneratedToken> tokens;  ///< one that ended the text included
  std::size_t prompt_tokens = 0;
  std::size_t cached_tokens = 0;    ///< of the prompt: in the cache since the last call, not read again
  std::size_t draft_tokens = 0;     ///< that were checked
  std::size_t accepted_tokens = 0;  ///< of them, those that the model chose too
  double prompt_seconds = 0;
  double seconds = 0;  ///< of the generated tokens
};

/// What one step of a generation brought. Views that hold until the callback returns.
struct GenerateStep {
  /// Text that is certain now: whole characters, no beginning of a stop string or of a mark; may be empty.
  std::string_view text;
  ReplyKind kind = ReplyKind::kAnswer;  ///< of the text
  /// Null for text that was held back until the end, and for all but the last text of a token that brings two kinds.
  const GeneratedToken* token = nullptr;
};

/// Returning false ends the generation: it is not called again.
using OnGenerateStep = std::function<bool(const GenerateStep&)>;

/// One conversation with a model. Calls come from one thread at a time; different generators of one model may be used
/// from different threads, where their steps run as one batch. What a generator gives does not depend on the others.
class Generator {
 public:
  explicit Generator(const Model& model);

  /// `draft` drafts tokens for it: a smaller model with the same tokens. Throws Error when it is not.
  Generator(const Model& model, const Model& draft);
  ~Generator();
  Generator(Generator&&) noexcept;
  Generator& operator=(Generator&&) noexcept;

  /// Continues token ids, which begin a context. What they have in common with the last call's context is not read
  /// again. Throws Error when there are none, or so many that the context has no room for one more.
  GenerateResult generate(std::span<const int> prompt, const GenerateOptions& options,
                          const OnGenerateStep& on_step = {});

  /// Continues a text, with the special tokens that belong around it.
  GenerateResult generate(std::string_view prompt, const GenerateOptions& options, const OnGenerateStep& on_step = {});

  /// Answers a conversation, system message and earlier turns included, by the model's chat template. Samples as the
  /// options say: see set_defaults().
  GenerateResult chat(std::span<const ChatMessage> messages, const GenerateOptions& options,
                      const OnGenerateStep& on_step = {});

  /// What the model says of ids[first] and those after it, each given all before it: their log-probabilities, and so
  /// many of the likeliest tokens, [ids.size() - first]. What the ids have in common with the last call's context is
  /// not read again, so that several answers to one question cost little more than one. Throws Error where ids[first]
  /// is not there or has none before it, for an id that is not in the vocabulary, for more than the context has room
  /// for, and for an encoder.
  std::vector<GeneratedToken> score(std::span<const int> ids, std::size_t first, std::size_t top = 0,
                                    const CacheOptions& cache = {.type = CacheOptions::Type::kF32});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ballast

#endif  // BALLAST_GENERATE_H_
