// The arithmetic of folds on matrices, biases and the statistics of inputs. Sums are in F64 and are rounded once. For
// matrices without values (in a plan) everything that does not depend on them is updated.
#ifndef BALLAST_QUANT_PASSES_FOLD_ARITHMETIC_H_
#define BALLAST_QUANT_PASSES_FOLD_ARITHMETIC_H_

#include <span>
#include <vector>

#include "ballast/statistics.h"
#include "model/roles/value_path.h"
#include "quant/block/working_block.h"

namespace ballast::quant {

/// Computes W[r][c] *= factors[c], and updates the bound.
void scale_columns(WorkingLinear& linear, std::span<const float> factors);

/// Computes W[r][c] *= factors[r], and the same for bias[r]. The caller updates the bound on the values, because it may
/// have a tighter one.
void scale_rows(WorkingLinear& linear, std::span<const float> factors);

/// Computes bias += W input, the effect of a constant part of the input. Creates the bias.
void add_constant_input(WorkingLinear& linear, std::span<const float> input);

/// Returns W input in F64; zeros in a plan.
std::vector<double> product(const WorkingLinear& linear, std::span<const float> input);

/// Computes bias += addend, rounded once. An empty bias counts as zeros.
void add_to_bias(std::vector<float>& bias, std::span<const double> addend);

/// The relation of a linear's inputs to the rows of another: `sharing` neighbouring heads of `size` channels read one
/// head of rows.
struct HeadSharing {
  HeadSharing() = default;
  explicit HeadSharing(const model::ValuePath& path) : size(path.head_size), sharing(path.sharing) {}

  std::size_t size = 1;
  std::size_t sharing = 1;
};

/// Expands a vector with one entry per row to one entry per input.
std::vector<float> repeat_for_heads(std::span<const float> values, const HeadSharing& heads);

/// Computes the statistics of x[c] * factors[c]. A channel that was always 0 stays 0.
void scale_channels(ChannelStatistics& channels, std::span<const float> factors);

/// Computes the statistics of x[c] - shift[c].
void shift_channels(ChannelStatistics& channels, std::span<const float> shift);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_PASSES_FOLD_ARITHMETIC_H_
