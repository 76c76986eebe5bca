#include "engine/output_processor.h"

#include <utility>

#include "ballast/error.h"
#include "engine/log_probabilities.h"

namespace ballast::engine {

OutputProcessor::OutputProcessor(const text::Tokenizer* tokenizer, const std::vector<int>& stop_tokens,
                                 text::StreamDecoder::Begin begin, const text::ReplyParser& reply,
                                 const GenerateOptions& options)
    : tokenizer_(tokenizer),
      logprobs_(options.logprobs),
      sampler_(options),
      reply_(reply),
      stream_(options.stop, options.show_stop),
      show_stop_(options.show_stop),
      show_special_tokens_(options.show_special_tokens) {
  if (!options.ignore_eos) {
    ends_ = stop_tokens;
    if (tokenizer != nullptr && tokenizer->eos()) ends_.push_back(*tokenizer->eos());
    for (const int inner : reply.inner()) std::erase(ends_, inner);
    ends_.insert(ends_.end(), reply.ends().begin(), reply.ends().end());
  }
  ends_.insert(ends_.end(), options.stop_tokens.begin(), options.stop_tokens.end());
  sampler_.forbid_at_first(ends_);
  if (tokenizer != nullptr) {
    decoder_.emplace(*tokenizer, begin, options.show_special_tokens);
  } else if (!options.stop.empty()) {
    throw Error("stop string", "needs a tokenizer, which the model does not have");
  }
}

void OutputProcessor::see(std::span<const int> prompt) {
  sampler_.see(prompt);
}

GeneratedToken OutputProcessor::next(std::span<const float> logits) {
  const int token = sampler_.sample(logits);
  stopped_ = ends_text(token);
  if (decoder_ && (!stopped_ || show_stop_)) add_to_text(token);
  if (!logprobs_) return {.id = token, .logprob = 0, .top = {}};
  return with_log_probabilities(token, logits, *logprobs_);
}

void OutputProcessor::add_to_text(int token) {
  const bool shown = show_special_tokens_ && !reply_.is_mark(token);
  if (tokenizer_->is_special(token) && !shown) {
    reply_.push_special(token, tokenizer_->token_bytes(token), pieces_);
  } else {
    reply_.push(decoder_->push(token), pieces_);
  }
  show_pieces();
  if (stream_.stopped()) stopped_ = true;
}

void OutputProcessor::finish() {
  if (!decoder_) return;
  reply_.push(decoder_->finish(), pieces_);
  reply_.finish(pieces_);
  show_pieces();
  stream_.finish(parts_);
}

void OutputProcessor::show_pieces() {
  for (const text::ReplyPiece& piece : pieces_) stream_.push(piece, parts_);
  pieces_.clear();
}

}  // namespace ballast::engine
