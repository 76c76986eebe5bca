// What folds do to matrices, to their biases and to the statistics of what they read. Sums are in F64 and are rounded
// once. Matrices without values (a conversion that is only planned) keep what does not depend on them.
#ifndef BALLAST_QUANT_PASSES_FOLD_ARITHMETIC_H_
#define BALLAST_QUANT_PASSES_FOLD_ARITHMETIC_H_

#include <span>
#include <vector>

#include "ballast/statistics.h"
#include "quant/working_block.h"

namespace ballast::quant {

/// W[r][c] *= factors[c], and its bound with it.
void scale_columns(WorkingLinear& linear, std::span<const float> factors);

/// W[r][c] *= factors[r], and bias[r] with it. The bound on the values is left to the caller, who may know a tighter
/// one.
void scale_rows(WorkingLinear& linear, std::span<const float> factors);

/// bias += W input: what a constant part of the input adds to every output. Creates the bias.
void add_constant_input(WorkingLinear& linear, std::span<const float> input);

/// W input in F64; zeros while planning.
std::vector<double> product(const WorkingLinear& linear, std::span<const float> input);

/// bias += addend, rounded once. An empty bias counts as zeros.
void add_to_bias(std::vector<float>& bias, std::span<const double> addend);

/// A vector of one entry per value channel [kv_heads][value_size] as one per input of the output projection
/// [heads][value_size]: heads / kv_heads neighbours share a value head.
std::vector<float> repeat_for_heads(std::span<const float> values, const ModelSpec& spec);

/// Statistics of x[c] * factors[c]. A channel that was always 0 stays so.
void scale_channels(ChannelStatistics& channels, std::span<const float> factors);

/// Statistics of x[c] - shift[c].
void shift_channels(ChannelStatistics& channels, std::span<const float> shift);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_PASSES_FOLD_ARITHMETIC_H_
