#include "engine/continuation.h"

#include <utility>

#include "ballast/error.h"
#include "engine/log_probabilities.h"

namespace ballast::engine {

Continuation::Continuation(const text::Tokenizer* tokenizer, const std::vector<int>& stop_tokens,
                           text::StreamDecoder::Begin begin, const GenerateOptions& options)
    : tokenizer_(tokenizer),
      logprobs_(options.logprobs),
      ends_(options.stop_tokens),
      sampler_(options),
      stream_(options.stop, options.show_stop),
      show_stop_(options.show_stop) {
  if (!options.ignore_eos) {
    ends_.insert(ends_.end(), stop_tokens.begin(), stop_tokens.end());
    if (tokenizer != nullptr && tokenizer->eos()) ends_.push_back(*tokenizer->eos());
  }
  sampler_.forbid_at_first(ends_);
  if (tokenizer != nullptr) {
    decoder_.emplace(*tokenizer, begin, options.show_special_tokens);
  } else if (!options.stop.empty()) {
    throw Error("stop string", "is text, and the model has no tokenizer: no stop string can be met");
  }
}

void Continuation::see(std::span<const int> prompt) {
  sampler_.see(prompt);
}

GeneratedToken Continuation::next(std::span<const float> logits) {
  const int token = sampler_.sample(logits);
  stopped_ = ends_text(token);
  if (decoder_ && (!stopped_ || show_stop_)) add_to_text(token);
  if (!logprobs_) return {.id = token, .logprob = 0, .top = {}};
  return with_log_probabilities(token, logits, *logprobs_);
}

void Continuation::add_to_text(int token) {
  const std::string shown = decoder_->push(token);
  text_ += stream_.push(shown);
  // A stop string may name a special token that is not shown.
  if (shown.empty() && tokenizer_->is_special(token)) text_ += stream_.push_special(tokenizer_->token_bytes(token));
  if (stream_.stopped()) stopped_ = true;
}

void Continuation::finish() {
  if (!decoder_) return;
  text_ += stream_.push(decoder_->finish());
  text_ += stream_.finish();
}

}  // namespace ballast::engine
