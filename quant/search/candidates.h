// The formats that a search chooses from.
#ifndef BALLAST_QUANT_SEARCH_CANDIDATES_H_
#define BALLAST_QUANT_SEARCH_CANDIDATES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "ballast/recipe.h"
#include "quant/write/model_format.h"

namespace ballast::quant {

/// Returns plans of a matrix in each of the candidates that `format` holds, without bias and 16-bit columns. Throws
/// Error naming the matrix if there is none.
std::vector<ModulePlan> candidate_plans(ModulePlan matrix, const ModelFormat& format);

/// Returns the bytes of a column of a matrix that is kept in 16 bits; 0: `format` has no such columns.
std::uint64_t bytes_of_column(ModulePlan matrix, const ModelFormat& format);

/// A model's size with all free formats at their smallest, and at their largest. 16-bit columns are added to it.
struct PlanLimits {
  std::vector<ModulePlan> least;
  std::vector<ModulePlan> most;
};
PlanLimits plan_limits(std::span<const ModulePlan> model, const ModelFormat& format);

/// Throws Error if `format` cannot hold a module as planned, or if the recipe's target is too small for the model even
/// with the smallest formats.
void check_plan(const Recipe& recipe, std::span<const ModulePlan> model, const ModelFormat& format);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_SEARCH_CANDIDATES_H_
