#include "engine/engine.h"

#include <algorithm>

#include "kernels/parallel.h"

namespace ballast::engine {

namespace {

// Rows of hidden values whose logits are computed at once: a vocabulary's width of each is in memory.
constexpr std::size_t kHeadRows = 64;

}  // namespace

void Engine::step(Sequence& sequence) {
  Sequence* const one = &sequence;
  step({&one, 1});
}

void Engine::step(std::span<Sequence* const> sequences) {
  Call call = {.sequences = sequences};
  std::unique_lock lock(mutex_);
  waiting_.push_back(&call);
  finished_.wait(lock, [&] { return call.done || !led_; });
  if (!call.done) {
    led_ = true;
    std::swap(calls_, waiting_);
    lock.unlock();
    run(calls_);
    lock.lock();
    for (Call* finished : calls_) finished->done = true;
    calls_.clear();
    led_ = false;
    finished_.notify_all();
  }
  lock.unlock();
  if (call.failure) std::rethrow_exception(call.failure);
}

/// One step of all calls' sequences. A call that cannot be run fails alone.
void Engine::run(std::span<Call* const> calls) {
  sequences_.clear();
  for (Call* call : calls) {
    try {
      for (const Sequence* sequence : call->sequences) model_.check(sequence->pending(), sequence->cache());
      sequences_.insert(sequences_.end(), call->sequences.begin(), call->sequences.end());
    } catch (...) {
      call->failure = std::current_exception();
    }
  }
  try {
    forward();
  } catch (...) {
    for (Call* call : calls) {
      if (!call->failure) call->failure = std::current_exception();
    }
  }
}

void Engine::forward() {
  batch_.clear();
  for (Sequence* sequence : sequences_) {
    const std::span<const int> ids = sequence->pending();
    batch_.push_back({.ids = ids, .cache = &sequence->cache_, .wanted = std::min(sequence->wanted_, ids.size())});
    sequence->logits_.resize(batch_.back().wanted * model_.spec().vocab_size);
  }
  kernels::with_team([&] { write_logits(model_.forward(batch_, workspace_)); });
}

/// Hands the wanted rows' logits to their sequences.
void Engine::write_logits(std::span<const float> hidden) {
  const std::size_t hidden_size = model_.spec().hidden_size;
  const std::size_t vocab_size = model_.spec().vocab_size;
  const std::size_t rows = hidden.size() / hidden_size;
  if (sequences_.size() == 1) {
    if (rows > 0) model_.logits(hidden.data(), rows, sequences_.front()->logits_.data(), workspace_);
    return;
  }
  logits_.resize(std::min(rows, kHeadRows) * vocab_size);
  auto sequence = sequences_.begin();
  std::size_t written = 0;  // rows of the sequence
  for (std::size_t first = 0; first < rows; first += kHeadRows) {
    const std::size_t count = std::min(kHeadRows, rows - first);
    model_.logits(hidden.data() + first * hidden_size, count, logits_.data(), workspace_);
    for (std::size_t i = 0; i < count; ++i) {
      while (written * vocab_size == (*sequence)->logits_.size()) {
        ++sequence;
        written = 0;
      }
      std::copy_n(logits_.data() + i * vocab_size, vocab_size, (*sequence)->logits_.data() + written++ * vocab_size);
    }
  }
}

}  // namespace ballast::engine
