// Finds the channels of an input that are most expensive to round with the others.
#ifndef BALLAST_QUANT_QUANTIZE_OUTLIER_CHANNELS_H_
#define BALLAST_QUANT_QUANTIZE_OUTLIER_CHANNELS_H_

#include <cstdint>
#include <vector>

#include "ballast/recipe.h"
#include "ballast/statistics.h"

namespace ballast::quant {

/// Returns the share `fraction` of the channels, rounded up, ascending: those with the largest magnitudes if
/// activations become INT8, those with the most energy if only the weights are rounded.
std::vector<std::int32_t> outlier_channels(const ChannelStatistics& channels, double fraction,
                                           ActivationType activations);

/// Returns whether a linear of this format has outlier columns: 8-bit weights with float activations need none.
bool keeps_outliers(const WeightFormat& format, ActivationType activations);

/// Returns whether a recipe of fixed formats has outlier columns.
bool splits_outliers(const Recipe& recipe);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_QUANTIZE_OUTLIER_CHANNELS_H_
