#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "ballast/error.h"
#include "ballast/generate.h"
#include "engine/continuation.h"
#include "engine/model_state.h"
#include "engine/sequence.h"

namespace ballast {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

struct Generator::State {
  explicit State(std::shared_ptr<const Model::State> shared_model) : shared(std::move(shared_model)) {}

  // Of the context, what is left after the prompt for the options' tokens.
  std::size_t most_tokens(std::size_t prompt, const GenerateOptions& options) const {
    const model::Model& model = shared->model;
    const std::size_t context = model.context_length();
    if (prompt == 0) throw Error("prompt", "is empty");
    if (!model.spec().causal) throw Error(shared->path.string(), "is an encoder: it does not continue text");
    if (options.cache.window > 0) return options.max_tokens;
    if (prompt >= context) {
      throw Error("prompt", std::to_string(prompt) + " tokens leave no room in the model's context of " +
                                std::to_string(context));
    }
    return std::min(options.max_tokens, context - prompt);
  }

  // The cache keeps what it has in common with the new context: a chat does not read its history again.
  engine::Sequence& sequence_for(std::span<const int> prompt, const CacheOptions& options) {
    if (!sequence || sequence->options() != options) {
      sequence.emplace(shared->model, options, shared->model.context_length());
    }
    sequence->replace(prompt);
    return *sequence;
  }

  GenerateResult run(std::span<const int> prompt, text::StreamDecoder::Begin begin, const GenerateOptions& options,
                     const OnGenerateStep& on_step) {
    GenerateResult result;
    result.prompt_tokens = prompt.size();
    const std::size_t limit = most_tokens(prompt.size(), options);
    engine::Continuation continuation(shared->own_tokenizer.get(), shared->model.spec().stop_tokens, begin, options);
    continuation.see(prompt);
    engine::Sequence& own = sequence_for(prompt, options.cache);
    result.cached_tokens = own.run();
    // Room for a page of text, so that a token of an ordinary answer costs no allocation.
    constexpr std::size_t kPage = 4096;
    result.text.reserve(kPage);
    result.tokens.reserve(std::min(limit, kPage));
    own.reserve(std::min(limit, kPage));

    Clock::time_point start = Clock::now();
    shared->engine.step(own);
    result.prompt_seconds = seconds_since(start);
    start = Clock::now();
    bool cancelled = false;
    const auto tell = [&](const GeneratedToken* token) {
      const std::string text = continuation.take_text();
      result.text += text;
      if (on_step && !cancelled && (!text.empty() || token != nullptr)) cancelled = !on_step({text, token});
    };
    while (result.tokens.size() < limit) {
      result.tokens.push_back(continuation.next(own.logits()));
      if (continuation.stopped()) result.finish = GenerateResult::Finish::kStop;
      tell(&result.tokens.back());
      if (cancelled && !continuation.stopped()) result.finish = GenerateResult::Finish::kCancelled;
      if (result.finish != GenerateResult::Finish::kLength || result.tokens.size() == limit) break;
      own.append(result.tokens.back().id);
      shared->engine.step(own);
    }
    continuation.finish();
    tell(nullptr);
    result.seconds = seconds_since(start);
    return result;
  }

  std::shared_ptr<const Model::State> shared;
  std::optional<engine::Sequence> sequence;
};

Generator::Generator(const Model& model) : state_(std::make_unique<State>(model.state_)) {}
Generator::~Generator() = default;
Generator::Generator(Generator&&) noexcept = default;
Generator& Generator::operator=(Generator&&) noexcept = default;

GenerateResult Generator::generate(std::span<const int> prompt, const GenerateOptions& options,
                                   const OnGenerateStep& on_step) {
  return state_->run(prompt, text::StreamDecoder::Begin::kWithinText, options, on_step);
}

GenerateResult Generator::generate(std::string_view prompt, const GenerateOptions& options,
                                   const OnGenerateStep& on_step) {
  const text::Tokenizer& tokenizer = state_->shared->tokenizer();
  std::vector<int> ids = tokenizer.encode(prompt);
  const std::vector<int>& leading = tokenizer.leading_special_tokens();
  ids.insert(ids.begin(), leading.begin(), leading.end());
  return generate(std::span<const int>(ids), options, on_step);
}

GenerateResult Generator::chat(std::span<const ChatMessage> messages, const GenerateOptions& options,
                               const OnGenerateStep& on_step) {
  const text::Tokenizer& tokenizer = state_->shared->tokenizer();
  const std::string prompt = text::apply_chat_template(tokenizer, messages);
  return state_->run(tokenizer.encode(prompt), text::StreamDecoder::Begin::kOfText, options, on_step);
}

}  // namespace ballast
