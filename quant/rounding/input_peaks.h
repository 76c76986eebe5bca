// The widths of the INT8 grids of an input: for each token and group, its largest value.
#ifndef BALLAST_QUANT_ROUNDING_INPUT_PEAKS_H_
#define BALLAST_QUANT_ROUNDING_INPUT_PEAKS_H_

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "ballast/ranks.h"
#include "jobs/sharded_sum.h"

namespace ballast::quant {

/// Sums over tokens, with the weights that they have in Hessian.
struct InputPeaks {
  static constexpr std::array<std::size_t, 4> kGroupSizes = {32, 64, 128, 256};

  /// Squares of the largest values of each group, by index into kGroupSizes. [groups]
  std::array<std::vector<float>, kGroupSizes.size()> squares;

  /// The decrease of the squares of groups of kGroupSizes[0] without a channel. Two channels of a group that are about
  /// equally large help only together: each then gets half of the decrease without both. [cols]
  std::vector<float> excess;

  const std::vector<float>& of_group_size(std::size_t group_size) const;
};

/// Forms them as HessianSum forms moments.
class PeakSum {
 public:
  PeakSum(std::size_t cols, jobs::SumOrder order);

  /// Adds inputs [rows][cols] of the present shard, each value multiplied with its row's weight; none: with 1.
  void add(const float* inputs, std::size_t rows, std::span<const float> weights);
  void end_shard(std::size_t index) { sum_.end_shard(index); }

  /// All ranks call it once and get the same bytes.
  InputPeaks finish(Ranks& ranks);

 private:
  /// Values of a row from column `begin` on, as many as the largest groups have, or the last ones, to `shard`.
  void add(std::span<const float> values, std::size_t begin, float weight, std::span<float> shard) const;

  std::size_t groups(std::size_t size) const { return (cols_ + size - 1) / size; }

  std::size_t cols_;
  jobs::ShardedSum<float> sum_;  ///< the arrays of InputPeaks one after the other
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_ROUNDING_INPUT_PEAKS_H_
