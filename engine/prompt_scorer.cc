#include "engine/prompt_scorer.h"

#include "engine/log_probabilities.h"
#include "engine/sampling.h"
#include "kernels/parallel.h"

namespace ballast::engine {

void PromptScorer::read(std::size_t first, std::span<const float> rows) {
  const std::size_t count = rows.size() / vocab_size_;
  kernels::TaskFailure failure;
  kernels::parallel_tasks(count, kernels::available_threads(), [&](std::size_t i, std::size_t) {
    const std::size_t next = position_ + first + i + 1;
    if (next >= prompt_.size()) return;
    failure.keep(i, [&] {
      const std::span<const float> logits = rows.subspan(i * vocab_size_, vocab_size_);
      require_finite(logits);
      GeneratedToken& score = scores_[next - 1];
      score = with_log_probabilities(prompt_[next], logits, top_);
      if (ranks_) score.rank = rank_of(prompt_[next], logits);
    });
  });
  try {
    failure.rethrow();
  } catch (...) {
    if (!failure_) failure_ = std::current_exception();
  }
}

void PromptScorer::check() const {
  if (failure_) std::rethrow_exception(failure_);
}

}  // namespace ballast::engine
