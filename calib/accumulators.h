// Running reductions that calibration keeps while blocks run.
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

/// Whether a token carries massive values, one entry per row.
using RowFlags = std::span<const std::uint8_t>;

/// Ranges per channel, ordinary and massive tokens apart. Rows come shard by shard: see ShardedSum.
class ChannelRanges {
 public:
  explicit ChannelRanges(std::size_t channels);

  /// Folds rows [flags.size()][channels] in, `stride` floats apart.
  void add(const float* rows, std::size_t stride, RowFlags massive);

  void end_shard(std::size_t index) { sums_.end_shard(index); }

  /// Of the rows of all ranks, which all call it once.
  ChannelStatistics finish(Ranks& ranks);

  /// After finish(): of all ranks.
  std::uint64_t rows() const { return ordinary_.rows + massive_.rows; }

 private:
  /// Of one of the two kinds of tokens.
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

/// Statistics over the tokens of both, `tokens` and `other_tokens` of them. Either may be of none.
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

  /// Folds rows [massive.size()][channels] in, the first of which is row `first_row` of all, and flags those that hold
  /// a massive value by the median of these rows.
  void add(const float* rows, std::size_t first_row, std::span<std::uint8_t> massive);

  /// What all ranks have seen, on each of them; rows count over all ranks.
  void merge(Ranks& ranks);

  double median() const;

  /// The largest value of each channel, by falling magnitude, at most `count`.
  std::vector<Peak> top(std::size_t count) const;

  /// All massive values by the median of all rows, in the order of rows.
  std::vector<Peak> massive() const;

 private:
  std::size_t channels_;
  std::vector<std::uint64_t> histogram_;
  std::vector<Peak> candidates_;  ///< every value that may be massive once the median of all rows is known
  std::vector<Peak> channel_peaks_;
};

/// A value is massive when its magnitude is > 100 and >= 1000 x the median (Sun et al. 2024).
bool is_massive(double magnitude, double median);

}  // namespace ballast::calib

#endif  // BALLAST_CALIB_ACCUMULATORS_H_
