// GPTQ (Frantar et al. 2022, arXiv:2210.17323): rounds a matrix column after column, and corrects the remaining columns
// for the output error of each.
#ifndef BALLAST_QUANT_QUANTIZE_GPTQ_H_
#define BALLAST_QUANT_QUANTIZE_GPTQ_H_

#include <functional>

#include "formats/code_matrix.h"
#include "quant/block/working_block.h"
#include "quant/rounding/drift.h"
#include "quant/rounding/hessian.h"

namespace ballast::quant {

/// Returns how many columns are rounded together: 1, or those of a lattice's cell.
std::size_t rounding_cell(const WeightFormat& format);

/// Rounds a matrix with values to its format. Columns are rounded in the factor's order; the grids of all groups are
/// fixed in advance (static groups), with the importance of each column's error. The columns of a cell of a lattice are
/// rounded together, to a point with a small output error after all later columns have compensated for it; the factor's
/// cells must be those of the format (rounding_cell). The bytes are the same for any number of threads. With `drift`
/// the weights are corrected for it first. `check_cancelled` is called from time to time, and may throw.
formats::CodeMatrix round_gptq(const WorkingLinear& linear, const InverseCholesky& factor, const Drift* drift = nullptr,
                               const std::function<void()>& check_cancelled = {});

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_QUANTIZE_GPTQ_H_
