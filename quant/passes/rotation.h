// Rotating what lies along an axis of a matrix, in runs of a Hadamard matrix's order, and statistics of it.
#ifndef BALLAST_QUANT_PASSES_ROTATION_H_
#define BALLAST_QUANT_PASSES_ROTATION_H_

#include <vector>

#include "ballast/statistics.h"
#include "quant/passes/hadamard.h"
#include "quant/working_block.h"

namespace ballast::quant {

/// Each row w becomes w R, for what reads rotated values; a table of which rows are looked up, too. And its bound.
void rotate_rows(WorkingLinear& linear, const Hadamard& rotation);

/// Each column w, and the bias, becomes w^T R, for what writes rotated values. And the bound.
void rotate_columns(WorkingLinear& linear, const Hadamard& rotation);

/// Statistics of x R. The mean is exact. The rest is as if the channels of a run varied independently, which statistics
/// of single channels do not tell: variances are averaged, and so are the squares of the half-widths.
void rotate_channels(ChannelStatistics& channels, const Hadamard& rotation);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_PASSES_ROTATION_H_
