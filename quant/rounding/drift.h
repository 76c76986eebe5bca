// The drift of a model whose blocks are being rounded from the original, and its correction by weights.
#ifndef BALLAST_QUANT_ROUNDING_DRIFT_H_
#define BALLAST_QUANT_ROUNDING_DRIFT_H_

#include <cstddef>
#include <span>
#include <vector>

#include "ballast/ranks.h"
#include "jobs/sharded_sum.h"
#include "quant/rounding/hessian.h"

namespace ballast::quant {

/// Sums over calibration's tokens, with their weights in the Hessian, for a linear's input x.
struct Drift {
  enum class Of {
    kInput,   ///< [cols][cols]: sum x (x' - x)^T, where x' is its input in the original model
    kStream,  ///< [rows][cols]: sum (h' - h) x^T, h' and h being the residual stream that it has been added to
  };
  Of of = Of::kInput;
  std::vector<float> values;
};

/// Forms one, in batches and shards as HessianSum.
class DriftSum {
 public:
  /// Sums the drift of `size` channels for an input of `cols` columns.
  DriftSum(Drift::Of of, std::size_t size, std::size_t cols, jobs::SumOrder order)
      : of_(of), size_(size), cols_(cols), sum_(size * cols, order) {}

  Drift::Of of() const { return of_; }

  /// `original` and `rounded` are [tokens][size], `inputs` [tokens][cols].
  void add(const float* original, const float* rounded, const float* inputs, std::size_t tokens,
           std::span<const float> weights);
  void end_shard(std::size_t index) { sum_.end_shard(index); }

  /// All ranks call it once and get the same bytes.
  Drift finish(Ranks& ranks) { return {.of = of_, .values = sum_.finish(ranks)}; }

 private:
  Drift::Of of_;
  std::size_t size_;
  std::size_t cols_;
  jobs::ShardedSum<float> sum_;
  // Scratch.
  std::vector<float> differences_;
  std::vector<float> transposed_differences_;
  std::vector<float> transposed_inputs_;
};

/// Changes rows of a linear, from row `first_row` on, so that on average over the tokens its output is closer to that
/// of the original, or corrects the drift of the stream: by a share of drift H^-1, the least squares solution.
/// `weights` [rows][cols] are in the factor's order of columns.
void correct_drift(const Drift& drift, const InverseCholesky& factor, std::size_t first_row, std::span<float> weights);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_ROUNDING_DRIFT_H_
