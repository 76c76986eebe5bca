// Running reductions of calibration while blocks run.
#ifndef BALLAST_CALIB_ACCUMULATORS_H_
#define BALLAST_CALIB_ACCUMULATORS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ballast/ranks.h"
#include "ballast/statistics.h"
#include "jobs/sharded_sum.h"

namespace ballast::calib {

/// Flags of tokens with massive values, one entry per row.
using RowFlags = std::span<const std::uint8_t>;

/// Ranges per channel, separate for ordinary and massive tokens. Rows are added shard by shard: see ShardedSum.
class ChannelRanges {
 public:
  explicit ChannelRanges(std::size_t channels);

  /// Adds rows [flags.size()][channels], `stride` floats apart.
  void add(const float* rows, std::size_t stride, RowFlags massive);

  void end_shard(std::size_t index) { sums_.end_shard(index); }

  /// Returns the statistics of all ranks' rows. All ranks call it once.
  ChannelStatistics finish(Ranks& ranks);

  /// Returns the rows of all ranks, after finish().
  std::uint64_t rows() const { return ordinary_.rows + massive_.rows; }

 private:
  /// The ranges of one kind of tokens.
  struct Kind {
    explicit Kind(std::size_t channels);
    std::uint64_t rows = 0;
    std::vector<float> min, max;
  };

  std::size_t channels_;
  Kind ordinary_;
  Kind massive_;
  jobs::ShardedSum<double> sums_;  ///< [ordinary, massive][sum, sum of squares][channels]
};

/// Merges statistics over `tokens` and `other_tokens` tokens. Either number may be 0.
ChannelStatistics merged(const ChannelStatistics& channels, std::uint64_t tokens, const ChannelStatistics& other,
                         std::uint64_t other_tokens);

/// A large value of a block's output; `row` counts tokens over all samples.
struct Peak {
  float value = 0;
  std::size_t row = 0;
  std::size_t channel = 0;
};

/// Magnitudes of one block's output.
class OutputMagnitudes {
 public:
  explicit OutputMagnitudes(std::size_t channels);

  /// Adds rows [massive.size()][channels], of which the first is row `first_row` of all, and flags those with a massive
  /// value by the median of these rows.
  void add(const float* rows, std::size_t first_row, std::span<std::uint8_t> massive);

  /// Merges the results of all ranks, on each of them; rows count over all ranks.
  void merge(Ranks& ranks);

  double median() const;

  /// Returns the largest value of each channel, at most `count`, in descending order of magnitude.
  std::vector<Peak> top(std::size_t count) const;

  /// Returns all massive values by the median of all rows, in the order of rows.
  std::vector<Peak> massive() const;

 private:
  std::size_t channels_;
  std::vector<std::uint64_t> histogram_;
  std::vector<Peak> candidates_;  ///< every value that may be massive, until the median of all rows is known
  std::vector<Peak> channel_peaks_;
};

}  // namespace ballast::calib

#endif  // BALLAST_CALIB_ACCUMULATORS_H_
