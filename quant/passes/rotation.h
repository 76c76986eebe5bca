// Rotates matrices along an axis in runs of a Hadamard matrix's order, and their statistics.
#ifndef BALLAST_QUANT_PASSES_ROTATION_H_
#define BALLAST_QUANT_PASSES_ROTATION_H_

#include <vector>

#include "ballast/statistics.h"
#include "model/source/hadamard.h"
#include "quant/block/working_block.h"

namespace ballast::quant {

using model::Hadamard;

/// Replaces each row w by w R, for readers of rotated values and for tables of rotated vectors; updates the bound.
void rotate_rows(WorkingLinear& linear, const Hadamard& rotation);

/// Replaces each column w, and the bias, by w^T R, for writers of rotated values; updates the bound.
void rotate_columns(WorkingLinear& linear, const Hadamard& rotation);

/// Computes statistics of x R. The mean is exact. The rest is estimated as if the channels of a run varied
/// independently, because statistics of single channels do not contain more: variances are averaged, and so are the
/// squares of the half-widths.
void rotate_channels(ChannelStatistics& channels, const Hadamard& rotation);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_PASSES_ROTATION_H_
