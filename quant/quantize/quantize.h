// Rounds all matrices of a block.
#ifndef BALLAST_QUANT_QUANTIZE_QUANTIZE_H_
#define BALLAST_QUANT_QUANTIZE_QUANTIZE_H_

#include <cstddef>
#include <functional>
#include <map>
#include <string>

#include "ballast/recipe.h"
#include "quant/block/working_block.h"

namespace ballast::quant {

/// Rounds the integer matrices with measured inputs by GPTQ, and frees the measurements. `check_cancelled` is called
/// before each matrix, and may throw.
void quantize_measured(WorkingBlock& block, const std::function<void()>& check_cancelled = {});

/// Rounds these, and all other matrices that are not rounded yet to nearest. A search weights errors by the statistics
/// of the input, if there are any.
void quantize(WorkingBlock& block, Recipe::Rounding rounding, const std::function<void()>& check_cancelled = {});

/// Describes the changes to all blocks in one line: `matrices` counts them by format.
std::string quantize_note(Recipe::Rounding rounding, const std::map<std::string, std::size_t>& matrices);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_QUANTIZE_QUANTIZE_H_
