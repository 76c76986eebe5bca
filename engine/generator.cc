#ifdef __linux__
#include <malloc.h>
#endif

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "ballast/error.h"
#include "ballast/generate.h"
#include "engine/sampling.h"
#include "model/model.h"
#include "text/text_stream.h"
#include "text/tokenizer.h"

namespace ballast {

namespace {

using Clock = std::chrono::steady_clock;

// Prompt tokens that pass the model at once.
constexpr std::size_t kPromptBatch = 512;

// Parsing leaves several times what the tokenizer takes, free but in the process.
std::unique_ptr<text::Tokenizer> read_tokenizer(const model::ModelSource& source) {
  std::unique_ptr<text::Tokenizer> tokenizer = model::require_tokenizer(source);
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
  return tokenizer;
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

struct Generator::State {
  explicit State(const std::filesystem::path& model_path) : State(std::make_unique<model::ModelSource>(model_path)) {}

  // The tokenizer comes first: what reading it takes for a moment then does not stand beside the weights.
  explicit State(std::unique_ptr<model::ModelSource> source)
      : path(source->checkpoint().path().string()), tokenizer(read_tokenizer(*source)), model(std::move(source)) {}

  bool ends_text(int token) const {
    const std::vector<int>& stops = model.spec().stop_tokens;
    return token == tokenizer->eos() || std::ranges::find(stops, token) != stops.end();
  }

  // The cache keeps what it has in common with the new context: a chat does not read its history again.
  std::size_t reuse_cache(const std::vector<int>& ids, std::size_t capacity, const CacheOptions& options) {
    const auto shared = std::ranges::mismatch(ids, cached_ids).in1 - ids.begin();
    // The last token's logits are needed, so at least that one runs.
    std::size_t keep = std::min(static_cast<std::size_t>(shared), ids.size() - 1);
    const bool fits = cache && cache_options == options && (cache->rolling() || cache->capacity() >= capacity);
    if (!fits || !cache->can_truncate_to(keep)) {
      cache.emplace(model.make_cache(options, capacity, kPromptBatch));
      cache_options = options;
      keep = 0;
    }
    cache->truncate(keep);
    cached_ids.resize(keep);
    return keep;
  }

  // Runs ids through the model and leaves the last one's logits in `logits`.
  void advance(std::span<const int> ids) {
    logits.resize(model.spec().vocab_size);
    while (!ids.empty()) {
      const std::span<const int> part = ids.first(std::min(kPromptBatch, ids.size()));
      const model::SequenceTokens sequence = {part, &*cache};
      ids = ids.subspan(part.size());
      if (ids.empty()) {
        model.next_logits(sequence, logits.data());
      } else {
        model.forward({&sequence, 1});
      }
      cached_ids.insert(cached_ids.end(), part.begin(), part.end());
    }
  }

  // `begin`: whether what is generated continues the prompt's text or is a text of its own.
  GenerateResult run(const std::vector<int>& ids, text::StreamDecoder::Begin begin, const GenerateOptions& options,
                     const std::function<bool(std::string_view)>& on_text) {
    if (ids.empty()) throw Error("prompt", "is empty");
    const bool rolling = options.cache.window > 0;
    const std::size_t context = model.context_length();
    if (!model.spec().causal) throw Error(path, "is an encoder: it does not continue text");
    if (!rolling && ids.size() >= context) {
      throw Error("prompt",
                  std::to_string(ids.size()) + " tokens do not fit the model's context of " + std::to_string(context));
    }
    engine::Sampler sampler(options);
    text::TextStream stream(options.stop);
    text::StreamDecoder decoder(*tokenizer, begin);
    for (const int id : ids) sampler.remember(id);

    GenerateResult result;
    result.prompt_tokens = ids.size();
    const std::size_t limit = rolling ? options.max_tokens : std::min(options.max_tokens, context - ids.size());
    // Room for a page of text, so that a token of an ordinary answer costs no allocation.
    constexpr std::size_t kPage = 4096;
    result.text.reserve(kPage);
    cached_ids.reserve(ids.size() + std::min(limit, kPage));
    const auto show = [&](const std::string& text) {
      result.text += text;
      if (!text.empty() && on_text && !on_text(text)) result.finish = GenerateResult::Finish::kCancelled;
    };

    Clock::time_point start = Clock::now();
    const std::size_t kept = reuse_cache(ids, ids.size() + limit, options.cache);
    advance(std::span(ids).subspan(kept));
    result.prompt_seconds = seconds_since(start);
    start = Clock::now();
    while (result.tokens < limit) {
      const int token = sampler.sample(logits);
      ++result.tokens;
      if (ends_text(token)) {
        result.finish = GenerateResult::Finish::kStop;
        break;
      }
      show(stream.push(decoder.push(token)));
      if (stream.stopped()) result.finish = GenerateResult::Finish::kStop;
      if (result.finish != GenerateResult::Finish::kLength || result.tokens == limit) break;
      advance({&token, 1});
    }
    show(stream.push(decoder.finish()));
    show(stream.finish());
    result.seconds = seconds_since(start);
    return result;
  }

  std::string path;
  std::unique_ptr<text::Tokenizer> tokenizer;
  model::Model model;
  std::optional<model::KeyValueCache> cache;
  CacheOptions cache_options;  ///< that it was made with
  std::vector<int> cached_ids;
  std::vector<float> logits;
  std::vector<text::ChatMessage> messages;
};

Generator::Generator(const std::filesystem::path& model) : state_(std::make_unique<State>(model)) {}
Generator::~Generator() = default;
Generator::Generator(Generator&&) noexcept = default;
Generator& Generator::operator=(Generator&&) noexcept = default;

GenerateResult Generator::generate(std::string_view prompt, const GenerateOptions& options,
                                   const std::function<bool(std::string_view)>& on_text) {
  std::vector<int> ids = state_->tokenizer->encode(prompt);
  const std::vector<int>& prefix = state_->tokenizer->leading_special_tokens();
  ids.insert(ids.begin(), prefix.begin(), prefix.end());
  return state_->run(ids, text::StreamDecoder::Begin::kWithinText, options, on_text);
}

GenerateResult Generator::chat(std::string_view message, const GenerateOptions& options,
                               const std::function<bool(std::string_view)>& on_text) {
  std::vector<text::ChatMessage>& messages = state_->messages;
  messages.push_back({"user", std::string(message)});
  try {
    const std::string prompt = text::apply_chat_template(*state_->tokenizer, messages);
    GenerateResult result =
        state_->run(state_->tokenizer->encode(prompt), text::StreamDecoder::Begin::kOfText, options, on_text);
    messages.push_back({"assistant", result.text});
    return result;
  } catch (...) {
    messages.pop_back();  // the conversation stays as it was before the message
    throw;
  }
}

}  // namespace ballast
