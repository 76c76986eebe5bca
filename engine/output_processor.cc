#include "engine/output_processor.h"

#include <utility>

#include "ballast/error.h"
#include "engine/log_probabilities.h"
#include "files/utf8.h"

namespace ballast::engine {

OutputProcessor::OutputProcessor(const text::Tokenizer* tokenizer, const std::vector<int>& stop_tokens,
                                 text::StreamDecoder::Begin begin, const text::ReplyParser& reply,
                                 const GenerateOptions& options,
                                 std::shared_ptr<const text::CompiledConstraint> constraint)
    : tokenizer_(tokenizer),
      logprobs_(options.logprobs),
      ignores_eos_(options.ignore_eos),
      min_tokens_(options.min_tokens),
      sampler_(options),
      reply_(reply),
      stream_(options.stop, options.show_stop),
      show_stop_(options.show_stop),
      show_special_tokens_(options.show_special_tokens) {
  std::vector<int> ends = stop_tokens;
  if (tokenizer != nullptr && tokenizer->eos()) ends.push_back(*tokenizer->eos());
  for (const int inner : reply.inner()) std::erase(ends, inner);
  ends.insert(ends.end(), reply.ends().begin(), reply.ends().end());
  if (!options.ignore_eos) ends_ = ends;
  ends_.insert(ends_.end(), options.stop_tokens.begin(), options.stop_tokens.end());
  if (constraint != nullptr) {
    matcher_.emplace(std::move(constraint), ends);
    complete_ends_ = std::move(ends);
  } else {
    sampler_.forbid_at_first(ends_);  // with a constraint: mask()
  }
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
  const std::span<const std::uint32_t> allowed = mask();
  if (matcher_ && std::ranges::all_of(allowed, [](std::uint32_t word) { return word == 0; })) {
    throw NoTokenError("constraint", "the model's vocabulary has no token that continues the text");
  }
  const int token = sampler_.sample(logits, allowed);
  last_ = token;
  stopped_ = ends_text(token);
  if (matcher_) advance(token);
  if (decoder_ && (!stopped_ || show_stop_)) add_to_text(token);
  stopped_ = stopped_ || is_complete();
  if (!logprobs_) return {.id = token, .logprob = 0, .top = {}};
  return with_log_probabilities(token, logits, *logprobs_);
}

/// Returns the tokens that the constraint allows; those that end the text before min_tokens, or although the model's
/// end tokens are ignored, only if there are no others.
std::span<const std::uint32_t> OutputProcessor::mask() {
  if (!matcher_) return {};
  const std::span<const std::uint32_t> allowed = matcher_->allowed();
  const bool is_early = taken_ < min_tokens_;
  if (!is_early && !ignores_eos_) return allowed;
  mask_.assign(allowed.begin(), allowed.end());
  const auto forbid = [&](int token) {
    const auto index = static_cast<std::size_t>(token);
    if (token >= 0 && index / 32 < mask_.size()) mask_[index / 32] &= ~(std::uint32_t{1} << index % 32);
  };
  std::ranges::for_each(complete_ends_, forbid);
  if (is_early) std::ranges::for_each(ends_, forbid);
  const bool has_others = std::ranges::any_of(mask_, [](std::uint32_t word) { return word != 0; });
  return has_others ? std::span<const std::uint32_t>(mask_) : allowed;
}

void OutputProcessor::advance(int token) {
  ++taken_;
  if (!matcher_->accept(token)) throw Error("constraint", "the chosen token does not continue the text");
  if (matcher_->ended()) stopped_ = true;
}

/// Returns whether the model has no end tokens, and nothing can follow.
bool OutputProcessor::is_complete() {
  if (!matcher_ || !complete_ends_.empty() || !matcher_->complete()) return false;
  return std::ranges::none_of(matcher_->allowed(), [](std::uint32_t word) { return word != 0; });
}

std::size_t OutputProcessor::count_allowed(std::span<const int> draft) {
  if (!matcher_) return draft.size();
  std::size_t count = 0;
  while (count < draft.size() && matcher_->accept(draft[count])) ++count;
  matcher_->roll_back(count);
  return count;
}

std::span<const int> OutputProcessor::forced_tokens() {
  forced_.clear();
  if (!matcher_ || tokenizer_ == nullptr || !last_) return forced_;
  std::string text = matcher_->forced_text();
  if (text.empty()) return forced_;
  // The text is encoded after the last token: alone, it might get a space before it.
  text.insert(0, tokenizer_->token_bytes(*last_));
  if (!files::is_utf8(text)) return forced_;
  const text::ByteRange all = {.begin = 0, .end = text.size()};
  try {
    const std::vector<int> ids = tokenizer_->encode(text, {&all, 1});
    if (!ids.empty() && ids.front() == *last_) forced_.assign(ids.begin() + 1, ids.end());
  } catch (const Error&) {  // a token without a row in the embedding: nothing is known about the next tokens
    forced_.clear();
  }
  return forced_;
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
