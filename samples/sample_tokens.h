// The tokens of samples, and the division of samples among ranks.
#ifndef BALLAST_SAMPLES_SAMPLE_TOKENS_H_
#define BALLAST_SAMPLES_SAMPLE_TOKENS_H_

#include <cstddef>
#include <functional>
#include <span>

#include "ballast/ranks.h"
#include "jobs/sharded_sum.h"

namespace ballast::samples {

/// Consecutive samples of `length` tokens each. The ids are a view.
struct SampleTokens {
  std::span<const int> ids;
  std::size_t length = 0;
  std::size_t prefix = 0;  ///< the first tokens of each sample that are the model's prefix; its text follows them

  std::size_t count() const { return length == 0 ? 0 : ids.size() / length; }

  /// Returns the ids of one sample, [length].
  std::span<const int> of(std::size_t sample) const { return ids.subspan(sample * length, length); }

  /// Returns the position in a sample from which predictions are compared: the second half of its text.
  std::size_t first_compared() const { return prefix + (length - prefix) / 2; }

  /// Returns the first `count` samples.
  SampleTokens first(std::size_t count) const { return {ids.first(count * length), length, prefix}; }
};

/// The division of a job's samples among ranks, and the order of sums over them.
struct SampleSharing {
  Ranks* ranks = &single_rank();
  jobs::SumOrder order = jobs::SumOrder::kAny;
  std::size_t samples = 0;  ///< of all ranks

  /// Returns the samples of this rank.
  jobs::IndexRange own() const { return jobs::samples_of_rank(ranks->rank(), ranks->size(), samples); }
};

/// Returns the part of all samples that this rank has.
SampleTokens own_samples(const SampleTokens& all, const SampleSharing& sharing);

/// Calls visit(shard, samples) for each shard of this rank, in order. `samples` count over all ranks and may be empty.
void for_each_shard(const SampleSharing& sharing,
                    const std::function<void(std::size_t shard, jobs::IndexRange samples)>& visit);

}  // namespace ballast::samples

#endif  // BALLAST_SAMPLES_SAMPLE_TOKENS_H_
