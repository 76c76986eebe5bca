#include "engine/engine.h"

#include <algorithm>

#include "ballast/error.h"
#include "kernels/parallel.h"

namespace ballast::engine {

namespace {

// Rows of hidden values whose logits are computed together: each takes a row of the vocabulary's size in memory.
constexpr std::size_t kHeadRows = 64;

/// Frees the old logits before allocating: they are large and no longer needed.
void make_room(std::size_t size, std::vector<float>& logits) {
  if (size > logits.capacity()) logits = std::vector<float>();
  logits.resize(size);
}

}  // namespace

void Engine::step(Sequence& sequence) {
  Sequence* const one = &sequence;
  step({&one, 1});
}

void Engine::step(std::span<Sequence* const> sequences) {
  Call call = {.sequences = sequences};
  std::unique_lock lock(mutex_);
  follow_fork();
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

std::vector<std::shared_ptr<model::EncodedSource>> Engine::encode(std::span<const model::TokenSpan> texts,
                                                                  kernels::CacheType type) {
  std::unique_lock lock(mutex_);
  follow_fork();
  finished_.wait(lock, [&] { return !led_; });
  led_ = true;
  lock.unlock();
  std::vector<std::shared_ptr<model::EncodedSource>> sources;
  std::exception_ptr failure;
  try {
    sources = model_.encode(texts, type, workspace_);
  } catch (...) {
    failure = std::current_exception();
  }
  lock.lock();
  led_ = false;
  lock.unlock();
  finished_.notify_all();
  if (failure) std::rethrow_exception(failure);
  return sources;
}

/// In a forked process, the calls of threads that do not exist there are dropped.
void Engine::follow_fork() {
  if (process_ == ::getpid()) return;
  if (led_) {
    throw Error("model",
                "another thread was running it when this process was forked: load it again in this process, or begin "
                "processes by spawn");
  }
  waiting_.clear();
  process_ = ::getpid();
}

/// Runs one step with all calls' sequences. A call that is invalid fails alone.
void Engine::run(std::span<Call* const> calls) {
  sequences_.clear();
  for (Call* call : calls) {
    try {
      for (const Sequence* sequence : call->sequences) model_.check(sequence->pending(), sequence->state());
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

/// Returns how many of a sequence's wanted rows of logits the sequence keeps.
std::size_t Engine::kept_rows(const Sequence& sequence, std::size_t wanted) {
  if (sequence.hidden_reader_ != nullptr) return 0;
  return sequence.reader_ == nullptr ? wanted : std::min<std::size_t>(1, wanted);
}

void Engine::forward() {
  batch_.clear();
  for (Sequence* sequence : sequences_) {
    const model::TokenSpan tokens = sequence->pending();
    batch_.push_back({.tokens = tokens,
                      .state = &sequence->state_,
                      .wanted = std::min(std::max(sequence->wanted_, sequence->hidden_limit_), tokens.size())});
    const std::size_t wanted = std::min(sequence->wanted_, tokens.size());
    make_room(kept_rows(*sequence, wanted) * model_.spec().vocab_size, sequence->logits_);
  }
  kernels::with_team([&] { write_outputs(keep_hidden(model_.forward(batch_, workspace_))); });
}

/// Gives the sequences the outputs that they keep, and leaves in the batch those that they want. Returns the rows of
/// these.
std::span<const float> Engine::keep_hidden(std::span<const float> hidden) {
  if (std::ranges::all_of(sequences_, [](const Sequence* sequence) { return sequence->hidden_limit_ == 0; })) {
    return hidden;
  }
  const std::size_t size = model_.spec().hidden_size;
  wanted_hidden_.clear();
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    const std::size_t count = batch_[i].wanted;
    const std::span<const float> rows = hidden.first(count * size);
    hidden = hidden.subspan(rows.size());
    if (sequences_[i]->hidden_limit_ > 0 && count > 0) sequences_[i]->add_hidden(rows, count);
    batch_[i].wanted = std::min(sequences_[i]->wanted_, count);
    const std::span<const float> wanted = rows.last(batch_[i].wanted * size);
    wanted_hidden_.insert(wanted_hidden_.end(), wanted.begin(), wanted.end());
  }
  return wanted_hidden_;
}

/// Passes the wanted outputs to the sequences: neighbours that want the same kind are computed together.
void Engine::write_outputs(std::span<const float> hidden) {
  const auto wants_logits = [&](std::size_t i) { return sequences_[i]->hidden_reader_ == nullptr; };
  for (std::size_t first = 0, end = 0; first < sequences_.size(); first = end) {
    std::size_t rows = 0;
    for (end = first; end < sequences_.size() && wants_logits(end) == wants_logits(first); ++end) {
      rows += batch_[end].wanted;
    }
    const std::span<const float> own = hidden.first(rows * model_.spec().hidden_size);
    hidden = hidden.subspan(own.size());
    if (wants_logits(first)) {
      write_logits(own, first, end);
    } else {
      write_hidden(own, first, end);
    }
  }
}

/// Passes hidden values to the readers of the sequences from `first` to `end`.
void Engine::write_hidden(std::span<const float> hidden, std::size_t first, std::size_t end) {
  const std::size_t hidden_size = model_.spec().hidden_size;
  const std::span<const float> rows = model_.normalized(hidden, workspace_);
  row_ends_.clear();
  for (std::size_t i = first, row = 0; i < end; ++i) row_ends_.push_back(row += batch_[i].wanted);
  kernels::parallel_tasks(end - first, kernels::threads_for(rows.size()), [&](std::size_t i, std::size_t) {
    const std::size_t wanted = batch_[first + i].wanted;
    if (wanted == 0) return;
    const std::size_t row = row_ends_[i] - wanted;
    sequences_[first + i]->hidden_reader_->read(rows.subspan(row * hidden_size, wanted * hidden_size));
  });
}

/// Returns rows that the head reads: `count` of the wanted ones of these sequences, from row `begin_row` on.
model::StepRows Engine::head_rows(std::size_t first, std::size_t end, std::size_t begin_row, std::size_t count) {
  const auto of_head = [](const Sequence* sequence) { return sequence->state().head_adapter(); };
  if (std::ranges::none_of(std::span(sequences_).subspan(first, end - first), of_head)) {
    return model::StepRows::outside(count);
  }
  row_ends_.clear();
  head_adapters_.clear();
  for (std::size_t i = first, row = 0; i < end; ++i) {
    row += batch_[i].wanted;
    row_ends_.push_back(std::clamp(row, begin_row, begin_row + count) - begin_row);
    head_adapters_.push_back(of_head(sequences_[i]));
  }
  return model::StepRows(row_ends_, head_adapters_);
}

/// Computes the logits of all wanted rows of the sequences from `first` to `end`.
void Engine::write_logits(std::span<const float> hidden, std::size_t first, std::size_t end) {
  const std::size_t hidden_size = model_.spec().hidden_size;
  const std::size_t vocab_size = model_.spec().vocab_size;
  const std::size_t rows = hidden.size() / hidden_size;
  if (end - first == 1 && sequences_[first]->reader_ == nullptr) {
    if (rows == 0) return;
    model_.logits(hidden.data(), head_rows(first, end, 0, rows), sequences_[first]->logits_.data(), workspace_);
    return;
  }
  logits_.resize(std::min(rows, kHeadRows) * vocab_size);
  std::size_t sequence = first;
  std::size_t written = 0;  // rows of the sequence
  for (std::size_t row = 0; row < rows; row += kHeadRows) {
    const std::size_t count = std::min(kHeadRows, rows - row);
    model_.logits(hidden.data() + row * hidden_size, head_rows(first, end, row, count), logits_.data(), workspace_);
    for (std::size_t i = 0, taken = 0; i < count; i += taken) {
      while (written == batch_[sequence].wanted) {
        ++sequence;
        written = 0;
      }
      taken = std::min(count - i, batch_[sequence].wanted - written);
      hand_over(*sequences_[sequence], written, std::span(logits_).subspan(i * vocab_size, taken * vocab_size));
      written += taken;
    }
  }
}

/// Passes a part of a sequence's wanted rows, from its row `first` on.
void Engine::hand_over(Sequence& sequence, std::size_t first, std::span<const float> rows) const {
  const std::size_t vocab_size = model_.spec().vocab_size;
  if (sequence.reader_ == nullptr) {
    std::ranges::copy(rows, sequence.logits_.begin() + static_cast<std::ptrdiff_t>(first * vocab_size));
  } else {
    sequence.reader_->read(first, rows);
    std::ranges::copy(rows.last(vocab_size), sequence.logits_.begin());
  }
}

}  // namespace ballast::engine
