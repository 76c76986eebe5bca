// What the scheduler is asked to do, and to whom it tells what comes of it.
#ifndef BALLAST_SERVE_SCHEDULER_REQUEST_H_
#define BALLAST_SERVE_SCHEDULER_REQUEST_H_

#include <atomic>
#include <cstddef>
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

/// What is told of the tokens of a prompt.
struct PromptScores {
  std::size_t top = 0;  ///< so many of the most likely tokens
  bool ranks = false;   ///< and how many tokens are more likely than the actual one
};

/// A prompt, and how it is to go on.
struct GenerationRequest {
  std::vector<int> prompt;
  GenerateOptions options{};       ///< max_tokens may be 0 where the prompt is scored; cache and draft are the server's
  std::size_t choices = 1;         ///< continuations, with seeds from options.seed on
  std::optional<Pooling> embed{};  ///< no continuation, but a vector of the prompt
  std::optional<PromptScores> score_prompt{};  ///< tells log-probabilities of the prompt's tokens
  text::StreamDecoder::Begin begin = text::StreamDecoder::Begin::kWithinText;
  text::ReplyParser reply{};  ///< of a chat, in the state in which its prompt ends
  std::string user{};         ///< among whom time is shared out
  std::string salt{};         ///< requests of another salt share no pages
};

struct RequestUsage {
  std::size_t prompt_tokens = 0;
  std::size_t cached_tokens = 0;  ///< of the prompt: not read again
  std::size_t generated_tokens = 0;
};

/// Why a request did not come to its end.
enum class Failure {
  kCancelled,  ///< by its ticket
  kStopped,    ///< with the server
  kError,
};

/// Hears what becomes of a request, on the engine's thread, which must not wait. on_end or on_failure is the last call.
/// Must not throw: what it has no memory for, it fails by itself.
class RequestListener {
 public:
  RequestListener() = default;
  virtual ~RequestListener() = default;
  RequestListener(const RequestListener&) = delete;
  RequestListener& operator=(const RequestListener&) = delete;

  /// Of the prompt's tokens but the first one.
  virtual void on_prompt_scored(std::vector<GeneratedToken>&& /*scores*/) {}

  /// Of the prompt, of length 1.
  virtual void on_embedded(std::vector<float>&& /*embedding*/) {}

  /// A token and the text that is certain now; no token (null) for text that was held back until the end.
  virtual void on_token(std::size_t /*choice*/, std::vector<ReplyPart>&& /*parts*/, const GeneratedToken* /*token*/) {}
  virtual void on_choice_end(std::size_t /*choice*/, GenerateResult::Finish /*finish*/) {}
  virtual void on_end(const RequestUsage& usage) = 0;
  virtual void on_failure(Failure failure, const std::string& message) = 0;
};

/// A request that was accepted. Any thread.
class Ticket {
 public:
  /// Ends the request within a step, queued or running: its listener hears on_failure.
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> cancelled_ = false;
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_SCHEDULER_REQUEST_H_
