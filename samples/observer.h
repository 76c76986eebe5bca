// Observers measure activations while samples run through a model block by block (samples/block_runner.h).
#ifndef BALLAST_SAMPLES_OBSERVER_H_
#define BALLAST_SAMPLES_OBSERVER_H_

#include <cstddef>
#include <span>
#include <vector>

#include "model/forward/forward.h"

namespace ballast::samples {

/// A batch of whole samples that has passed a block, or is between two blocks. Views, valid until the runner's next
/// batch.
struct ObservedBatch {
  std::size_t first = 0;  ///< index of the first sample on this rank
  std::size_t count = 0;  ///< samples
  /// What the block's linears read (with ForwardOptions::record_inputs), its keys, values and routing; stale where no
  /// block ran (BlockRunner::observe_stream()).
  const model::BlockActivations* activations = nullptr;
  std::span<const float> hidden{};  ///< the stream after the block [tokens][hidden]; empty if the pass ended earlier
};

/// Measures a block, or the stream between two. Batches come shard by shard (jobs/sharded_sum.h), each shard's before
/// its end_shard().
class Observer {
 public:
  Observer() = default;
  virtual ~Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  virtual void add(const ObservedBatch& batch) = 0;
  virtual void end_shard(std::size_t shard) = 0;
};

/// One accumulator for each input of a block, in the order of the forward pass. The first batch determines the inputs;
/// an accumulator has end_shard(shard).
template <class Accumulator>
class InputAccumulators {
 public:
  /// Returns the accumulator of input `index`; make() creates it when the first batch has the input.
  template <class Make>
  Accumulator& at(std::size_t index, const Make& make) {
    if (index == all_.size()) {
      all_.push_back(make());
      // Shards before the first batch had no samples.
      for (const std::size_t empty : ended_) all_.back().end_shard(empty);
    }
    return all_[index];
  }

  void end_shard(std::size_t shard) {
    for (Accumulator& accumulator : all_) accumulator.end_shard(shard);
    ended_.push_back(shard);
  }

  auto begin() { return all_.begin(); }
  auto end() { return all_.end(); }

 private:
  std::vector<Accumulator> all_;
  std::vector<std::size_t> ended_;  ///< shards
};

}  // namespace ballast::samples

#endif  // BALLAST_SAMPLES_OBSERVER_H_
