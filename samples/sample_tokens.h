// The tokens of samples, and how ranks share the samples of a job.
#ifndef BALLAST_SAMPLES_SAMPLE_TOKENS_H_
#define BALLAST_SAMPLES_SAMPLE_TOKENS_H_

#include <cstddef>
#include <functional>
#include <span>

#include "ballast/ranks.h"
#include "jobs/sharded_sum.h"

namespace ballast::samples {

/// Samples of `length` tokens each, one after the other. The ids are a view.
struct SampleTokens {
  std::span<const int> ids;
  std::size_t length = 0;
  std::size_t prefix = 0;  ///< the first tokens of each sample that belong to the model's prefix; its text follows them

  std::size_t count() const { return length == 0 ? 0 : ids.size() / length; }

  /// The ids of one sample, [length].
  std::span<const int> of(std::size_t sample) const { return ids.subspan(sample * length, length); }

  /// The position in a sample from which predictions are compared: the later half of its text.
  std::size_t first_compared() const { return prefix + (length - prefix) / 2; }

  /// The first `count` samples.
  SampleTokens first(std::size_t count) const { return {ids.first(count * length), length, prefix}; }
};

/// How the samples of a job are spread over ranks, and how sums over them are formed.
struct SampleSharing {
  Ranks* ranks = &single_rank();
  jobs::SumOrder order = jobs::SumOrder::kAny;
  std::size_t samples = 0;  ///< of all ranks together

  /// The samples of this rank.
  jobs::IndexRange own() const { return jobs::samples_of_rank(ranks->rank(), ranks->size(), samples); }
};

/// Returns the part of all samples that this rank has.
SampleTokens own_samples(const SampleTokens& all, const SampleSharing& sharing);

/// Calls visit(shard, samples) for each shard of this rank, in order. `samples` count over all ranks and may be empty.
void for_each_shard(const SampleSharing& sharing,
                    const std::function<void(std::size_t shard, jobs::IndexRange samples)>& visit);

}  // namespace ballast::samples

#endif  // BALLAST_SAMPLES_SAMPLE_TOKENS_H_
