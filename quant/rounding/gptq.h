// GPTQ (Frantar et al. 2022, arXiv:2210.17323): a matrix is rounded column after column, and the columns still to come
// take over the output error made so far.
#ifndef BALLAST_QUANT_ROUNDING_GPTQ_H_
#define BALLAST_QUANT_ROUNDING_GPTQ_H_

#include <functional>

#include "quant/rounding/drift.h"
#include "quant/rounding/hessian.h"
#include "quant/rounding/rounded_matrix.h"
#include "quant/working_block.h"

namespace ballast::quant {

/// Rounds a matrix with values to its format. Columns are taken in the factor's order; the grids of all groups are
/// fixed before (static groups), found for what a column's error costs. Same bytes for any number of threads.
/// With `drift` the weights are corrected for it first. `check_cancelled` is called now and then, and may throw.
RoundedMatrix round_gptq(const WorkingLinear& linear, const InverseCholesky& factor, const Drift* drift = nullptr,
                         const std::function<void()>& check_cancelled = {});

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_ROUNDING_GPTQ_H_
