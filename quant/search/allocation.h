// Chooses a format for each matrix so that the whole model fits into a number of bytes.
#ifndef BALLAST_QUANT_SEARCH_ALLOCATION_H_
#define BALLAST_QUANT_SEARCH_ALLOCATION_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ballast/recipe.h"
#include "quant/block/module_id.h"
#include "quant/block/working_block.h"
#include "quant/write/converted_module.h"

namespace ballast::quant {

/// One way to store a matrix.
struct FormatOption {
  WeightFormat format;
  std::uint64_t bytes = 0;
  /// The divergence from rounding each column, which is saved by a column that is kept in 16 bits. [cols]
  std::vector<float> column_costs;
  double cost = 0;             ///< their sum
  double activation_cost = 0;  ///< divergence that rounding the input in groups of this size adds
};

struct MatrixChoice {
  ModuleId id;
  std::string name;  ///< for messages
  std::size_t rows = 0;
  std::vector<FormatOption> options;  ///< at least one
  std::uint64_t column_bytes = 0;     ///< of each column kept in 16 bits
  /// The divergence that leaving out a column saves in addition, because the grid of the other activations becomes
  /// finer. [cols], or empty.
  std::vector<float> outlier_gains;
};

/// Matrices that read the same input. Their formats must have one group size and the same 16-bit columns, because their
/// input is quantized once. Blocks of a GGUF have no group size here: each matrix's input is rounded separately.
struct InputChoice {
  std::size_t cols = 0;
  std::vector<MatrixChoice> matrices;
  std::size_t most_outliers = 0;   ///< columns that may keep 16 bits
  double share = 1;                ///< of the tokens that pass here, in the mean: an expert sees some
  bool int16_activations = false;  ///< assign_int16_activations() chose INT16 for the input
  bool tied = false;               ///< all matrices must have one format; they have the same options
};

struct MatrixAllocation {
  WeightFormat format;
  std::vector<std::int32_t> outlier_columns;  ///< ascending
  bool int16_activations = false;             ///< its input becomes INT16 even if the recipe says INT8
  std::uint64_t bytes = 0;                    ///< of weights, scales, zeros and outlier columns
  double cost = 0;                            ///< divergence expected from it
  double next_gain = 0;                       ///< divergence that each further byte would save, at best
};

struct Allocation {
  std::map<ModuleId, MatrixAllocation> matrices;
  std::uint64_t bytes = 0;
  double cost = 0;

  /// Returns null if the matrix is not among them.
  const MatrixAllocation* find(const ModuleId& id) const;
};

/// Changes inputs to INT16 whose rounding to INT8 costs most for the multiply-adds that read them, as long as these are
/// at most `share` of all multiply-adds that read rounded inputs.
void assign_int16_activations(std::vector<InputChoice>& inputs, double share);

/// Returns the choice with the smallest sum of costs within `budget` bytes, by Lagrange's method: at a price per byte
/// each input chooses independently; the price is found from the budget. The remaining bytes are spent on the best
/// single changes that fit. A matrix that takes much of the budget alone also gets the formats next to that, with a
/// price for the others, if the sum is smaller. Deterministic. Throws Error naming the smallest possible size if
/// nothing fits.
Allocation allocate(const std::vector<InputChoice>& inputs, std::uint64_t budget);

/// Sets the chosen formats of a block's matrices.
void apply_allocation(const Allocation& allocation, WorkingBlock& block);

/// Sets the chosen formats and numbers of columns of a plan's matrices.
void apply_allocation(const Allocation& allocation, std::span<ModulePlan> plan);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_SEARCH_ALLOCATION_H_
