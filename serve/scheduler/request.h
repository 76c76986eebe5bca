// Requests to the scheduler, and the listener for their results.
#ifndef BALLAST_SERVE_SCHEDULER_REQUEST_H_
#define BALLAST_SERVE_SCHEDULER_REQUEST_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ballast/chat.h"
#include "ballast/generate.h"
#include "ballast/spec.h"
#include "text/reply/reply_parser.h"
#include "text/tokenizer.h"

namespace ballast::serve {

/// Which scores of the prompt's tokens are returned.
struct PromptScores {
  std::size_t top = 0;  ///< number of most likely tokens
  bool ranks = false;   ///< also the rank of the actual token
};

/// A prompt and the options of its continuation.
struct GenerationRequest {
  std::vector<int> prompt;
  /// What an encoder reads before the prompt, which is then the beginning of the written text; else empty.
  std::vector<int> source{};
  GenerateOptions options{};  ///< max_tokens may be 0 if the prompt is scored; the server sets cache and draft
  std::size_t choices = 1;    ///< continuations, with seeds from options.seed on
  std::vector<std::uint8_t> token_types{};  ///< of the prompt; empty: all 0
  std::optional<Pooling> embed{};           ///< computes a vector of the prompt instead of a continuation
  std::optional<bool> normalized{};  ///< whether the vector is scaled to length 1; absent: as the model's files say
  std::size_t dimensions = 0;        ///< first values of a vector that are kept; 0: all
  bool classify = false;             ///< computes the classifier's scores instead, before its function
  std::optional<PromptScores> score_prompt{};  ///< returns log-probabilities of the prompt's tokens
  text::StreamDecoder::Begin begin = text::StreamDecoder::Begin::kWithinText;
  text::ReplyParser reply{};  ///< for chats, in its state at the end of the prompt
  std::string user{};         ///< time is divided fairly among users
  std::string salt{};         ///< requests with different salts share no pages
};

struct RequestUsage {
  std::size_t prompt_tokens = 0;
  std::size_t cached_tokens = 0;  ///< tokens of the prompt that were in the cache
  std::size_t generated_tokens = 0;
  std::size_t thinking_tokens = 0;  ///< of the generated ones
};

/// Why a text ended.
struct ChoiceEnd {
  GenerateResult::Finish finish = GenerateResult::Finish::kLength;
  std::string stop_string{};  ///< empty if none was found
};

/// Why a request did not complete.
enum class Failure {
  kCancelled,  ///< by its ticket
  kStopped,    ///< with the server
  kNoToken,    ///< its options allow no token that its text could go on with
  kError,
};

/// Receives the results of a request on the engine's thread, and must not block. on_end or on_failure is the last call.
/// Must not throw: the listener itself handles failed allocations.
class RequestListener {
 public:
  RequestListener() = default;
  virtual ~RequestListener() = default;
  RequestListener(const RequestListener&) = delete;
  RequestListener& operator=(const RequestListener&) = delete;

  /// The scores of the prompt's tokens except the first one.
  virtual void on_prompt_scored(std::vector<GeneratedToken>&& /*scores*/) {}

  /// The vector of the prompt, or the classifier's scores.
  virtual void on_embedded(std::vector<float>&& /*embedding*/) {}

  /// A token and the text that is now certain; no token (null) for text that was held back until the end.
  virtual void on_token(std::size_t /*choice*/, std::vector<ReplyPart>&& /*parts*/, const GeneratedToken* /*token*/) {}
  virtual void on_choice_end(std::size_t /*choice*/, const ChoiceEnd& /*end*/) {}
  virtual void on_end(const RequestUsage& usage) = 0;
  virtual void on_failure(Failure failure, const std::string& message) = 0;
};

/// The handle of an accepted request. Any thread.
class Ticket {
 public:
  /// Ends a waiting or running request within a step: its listener gets on_failure.
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> cancelled_ = false;
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_SCHEDULER_REQUEST_H_
