// Generates text from prompts.
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

#include "ballast/adapter.h"
#include "ballast/cache.h"
#include "ballast/chat.h"
#include "ballast/constraint.h"
#include "ballast/model.h"

namespace ballast {

/// A value added to a token's logit.
struct LogitBias {
  int id = 0;
  float bias = 0;  ///< -100 to 100
};

struct GenerateOptions {
  std::size_t max_tokens = 128;
  double temperature = 0;  ///< 0: always the most likely token
  std::size_t top_k = 0;   ///< 0: no limit
  double top_p = 1;
  double min_p = 0;  ///< at most 1: tokens less likely than this fraction of the most likely one are not chosen
  /// 0.01 to 100 (Keskar et al. 2019): divides positive logits of tokens in the prompt or the answer.
  double repetition_penalty = 1;
  double presence_penalty = 0;   ///< -2 to 2: subtracted from the logits of tokens in the answer
  double frequency_penalty = 0;  ///< -2 to 2: subtracted for each occurrence in the answer
  /// All three penalties count this many last tokens of prompt and answer together; 0: none. Absent: as described
  /// above.
  std::optional<std::size_t> penalty_window{};
  std::vector<LogitBias> logit_bias{};
  std::vector<int> allowed_tokens{};  ///< only these tokens are chosen; empty: all tokens
  /// Token sequences that the answer never contains: the last token of a sequence is not chosen after the others.
  std::vector<std::vector<int>> forbidden_sequences{};
  /// What the answer must match; a chat's thinking before it is free. It is applied before all other rules of choosing:
  /// a token that it forbids is never chosen, even with a bias of 100, and once the answer is complete only end tokens
  /// are chosen, even before min_tokens and with ignore_eos. Drafts that it forbids are not run. Log-probabilities are
  /// still the model's own.
  Constraint constraint{};
  std::uint64_t seed = 0;  ///< the same seed gives the same tokens on machines with the same instruction set
  /// Generation ends before any of these texts, also in thinking. The text of a special token matches, too, although it
  /// is not shown.
  std::vector<std::string> stop{};
  std::vector<int> stop_tokens{};    ///< generation ends after any of these, in addition to the model's own
  bool ignore_eos = false;           ///< the model's own stop tokens do not end a text
  bool show_stop = false;            ///< the text includes the stop string or token that ended it
  bool show_special_tokens = false;  ///< the text includes special tokens
  std::size_t min_tokens = 0;  ///< no token that ends a text is chosen before this many; stop strings always end it
  /// Speculative decoding: at most this many tokens are drafted, from repetitions of the text, by a draft model or by
  /// the model's own draft head (ModelOptions::draft_head), and checked in one step if that is faster. The output is
  /// the same at any temperature. At most 64; 0: none.
  std::size_t draft_tokens = 8;
  std::optional<std::size_t>
      logprobs{};  ///< returns each token's log-probability, and this many of the most likely ones
  /// For chats: a JSON object with arguments of the template, such as {"enable_thinking": false}.
  std::string template_arguments{};
  /// For chats: how the model writes thinking and calls of tools (text/reply/reply_format.h: "hermes", "harmony" ...);
  /// "auto": as its chat template does; "none": all text is the answer.
  std::string reply_format = "auto";
  /// For chats: a JSON list of tools that the model may call, as in OpenAI's API: [{"type": "function", "function":
  /// {"name": "add", "description": "..", "parameters": (a JSON schema)}}].
  std::string tools{};
  /// For models with an encoder, whose prompt is the source text: TranslateOptions of the same names.
  std::string source_language{};
  std::string target_language{};
  Adapter adapter{};  ///< of this model; null: none
  CacheOptions cache{};
};

/// Copies the model's default sampling values, to be called before a user changes some.
void set_defaults(const GenerationDefaults& defaults, GenerateOptions& options);

/// A token and the natural logarithm of its probability by the model's logits, before temperature and penalties.
struct TokenLogprob {
  int id = 0;
  double logprob = 0;
};

struct GeneratedToken {
  int id = 0;
  double logprob = 0;             ///< with GenerateOptions::logprobs, else 0
  std::vector<TokenLogprob> top;  ///< the most likely tokens in descending order
  std::size_t rank = 0;           ///< 1 for the most likely token, ...; 0: not computed
};

struct GenerateResult {
  enum class Finish { kStop, kLength, kCancelled };
  Finish finish = Finish::kLength;
  std::string text;                    ///< in a chat only the answer
  std::string thinking;                ///< in a chat: the model's thinking, without its marks
  std::vector<ToolCall> tool_calls;    ///< in a chat with tools
  std::vector<GeneratedToken> tokens;  ///< including the one that ended the text
  std::size_t prompt_tokens = 0;
  std::size_t cached_tokens = 0;    ///< tokens of the prompt that were in the cache since the last call
  std::size_t draft_tokens = 0;     ///< checked draft tokens
  std::size_t accepted_tokens = 0;  ///< accepted draft tokens
  double prompt_seconds = 0;
  double seconds = 0;  ///< for the generated tokens
};

/// The result of one step of a generation. Views are valid until the callback returns.
struct GenerateStep {
  /// Text that is certain now: whole characters, without the beginning of a stop string or of a mark; may be empty.
  std::string_view text;
  ReplyKind kind = ReplyKind::kAnswer;  ///< of the text
  std::size_t call = 0;                 ///< ReplyPart::call
  /// Null for text that was held back until the end, and for all but the last text of a token with two kinds of text.
  const GeneratedToken* token = nullptr;
};

/// Returning false ends the generation; there are no more calls.
using OnGenerateStep = std::function<bool(const GenerateStep&)>;

/// One conversation with a model. It belongs to one thread at a time; different generators of one model may be used by
/// different threads, and their steps run as one batch. A generator's output does not depend on the others.
class Generator {
 public:
  explicit Generator(const Model& model);

  /// `draft` drafts tokens: a smaller model with the same tokenizer. Throws Error if the tokenizers differ.
  Generator(const Model& model, const Model& draft);
  ~Generator();
  Generator(Generator&&) noexcept;
  Generator& operator=(Generator&&) noexcept;

  /// Continues token ids from the beginning of a context. A model with an encoder reads them as its source text, and
  /// writes a text that begins with TranslateOptions::first_tokens. The common beginning with the last call's context
  /// is not read again. Throws Error if there are none, or if the context has no room for one more.
  GenerateResult generate(std::span<const int> prompt, const GenerateOptions& options,
                          const OnGenerateStep& on_step = {});

  /// Continues a text, or reads it as a source text, after adding the special tokens around it.
  GenerateResult generate(std::string_view prompt, const GenerateOptions& options, const OnGenerateStep& on_step = {});

  /// Answers a conversation, including system message and earlier turns, by the model's chat template. Samples with the
  /// given options: see set_defaults().
  GenerateResult chat(std::span<const ChatMessage> messages, const GenerateOptions& options,
                      const OnGenerateStep& on_step = {});

  /// Scores ids[first] and the later ones, each given all before it: returns their log-probabilities, and `top` of the
  /// most likely tokens, [ids.size() - first]. The common beginning with the last call's context is not read again, so
  /// that several answers to one question cost little more than one. Throws Error if ids[first] does not exist or has
  /// none before it, for an id that is not in the vocabulary, for more than the context has room for, and for an
  /// encoder.
  std::vector<GeneratedToken> score(std::span<const int> ids, std::size_t first, std::size_t top = 0,
                                    const CacheOptions& cache = {.type = CacheOptions::Type::kF32},
                                    const Adapter& adapter = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ballast

#endif  // BALLAST_GENERATE_H_
