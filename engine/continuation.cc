#include "engine/continuation.h"

#include <utility>

#include "ballast/error.h"
#include "engine/log_probabilities.h"

namespace ballast::engine {

Continuation::Continuation(const text::Tokenizer* tokenizer, const std::vector<int>& stop_tokens,
                           text::StreamDecoder::Begin begin, const GenerateOptions& options)
    : logprobs_(options.logprobs), ends_(options.stop_tokens), sampler_(options), stream_(options.stop) {
  if (!options.ignore_eos) {
    ends_.insert(ends_.end(), stop_tokens.begin(), stop_tokens.end());
    if (tokenizer != nullptr && tokenizer->eos()) ends_.push_back(*tokenizer->eos());
  }
  sampler_.forbid_at_first(ends_);
  if (tokenizer != nullptr) {
    decoder_.emplace(*tokenizer, begin);
  } else if (!options.stop.empty()) {
    throw Error("stop string", "is text, and the model has no tokenizer: no stop string can be met");
  }
}

void Continuation::see(std::span<const int> prompt) {
  for (const int id : prompt) sampler_.remember(id);
}

GeneratedToken Continuation::next(std::span<const float> logits) {
  const int token = sampler_.sample(logits);
  stopped_ = ends_text(token);
  if (!stopped_ && decoder_) {
    text_ += stream_.push(decoder_->push(token));
    stopped_ = stream_.stopped();
  }
  if (!logprobs_) return {.id = token, .logprob = 0, .top = {}};
  return with_log_probabilities(token, logits, *logprobs_);
}

void Continuation::finish() {
  if (!decoder_) return;
  text_ += stream_.push(decoder_->finish());
  text_ += stream_.finish();
}

}  // namespace ballast::engine
