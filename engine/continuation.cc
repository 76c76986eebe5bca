#include "engine/continuation.h"

#include <algorithm>
#include <utility>

#include "ballast/error.h"
#include "engine/log_probabilities.h"

namespace ballast::engine {

Continuation::Continuation(const text::Tokenizer* tokenizer, const std::vector<int>& stop_tokens,
                           text::StreamDecoder::Begin begin, const GenerateOptions& options)
    : tokenizer_(tokenizer),
      stop_tokens_(stop_tokens),
      logprobs_(options.logprobs),
      sampler_(options),
      stream_(options.stop) {
  if (tokenizer != nullptr) {
    decoder_.emplace(*tokenizer, begin);
  } else if (!options.stop.empty()) {
    throw Error("stop string", "is text, and the model has no tokenizer: no stop string can be met");
  }
}

void Continuation::see(std::span<const int> prompt) {
  for (const int id : prompt) sampler_.remember(id);
}

bool Continuation::ends_text(int token) const {
  return (tokenizer_ != nullptr && token == tokenizer_->eos()) ||
         std::ranges::find(stop_tokens_, token) != stop_tokens_.end();
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
