// Estimates the effect of rounding on the outputs of linears that share an input, from statistics of single channels.
#ifndef BALLAST_QUANT_QUANTIZE_ROUNDING_ERROR_H_
#define BALLAST_QUANT_QUANTIZE_ROUNDING_ERROR_H_

#include <cstddef>
#include <span>

#include "ballast/recipe.h"
#include "ballast/statistics.h"
#include "quant/block/working_block.h"
#include "quant/quantize/weight_row_sample.h"

namespace ballast::quant {

/// Returns the rows of a matrix that rounding_error() rounds.
WeightRowSample rounding_error_sample(const WorkingLinear& linear);

/// Returns the root of a channel's mean square, without the part of massive tokens beyond the largest ordinary value.
float ordinary_rms(const ChannelStatistics& channels, std::size_t channel);

/// The expected squared error of the outputs of all `readers`, summed over the outputs, for one token:
///     sum_c mean_square[c] sum_r (W - round(W))[r][c]^2
///     + with INT8 activations, sum_c step(c)^2 / 12 sum_r W[r][c]^2
/// where step is a 127th of the largest magnitude in the channel's group, of which the root mean square over tokens is
/// taken as the 4-norm of the channels' (E max x^2 <= sqrt(E sum x^4)). Outlier columns are left out of both, as the
/// recipe will leave them out. Errors of different channels count as independent.
double rounding_error(std::span<const WeightRowSample> readers, const ChannelStatistics& channels,
                      const Recipe& recipe);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_QUANTIZE_ROUNDING_ERROR_H_
