// What a conversion's weights will take, from shapes alone.
#ifndef BALLAST_QUANT_SEARCH_SIZE_ESTIMATE_H_
#define BALLAST_QUANT_SEARCH_SIZE_ESTIMATE_H_

#include <cstdint>

#include "ballast/recipe.h"
#include "ballast/spec.h"

namespace ballast::quant {

/// Bytes of all matrices in the formats that the recipe gives them, outlier columns included; norms, biases and what
/// folds add or take away are left out, as are patterns in the recipe that name matrices. Within a few percent.
std::uint64_t estimated_bytes(const Recipe& recipe, const ModelSpec& spec);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_SEARCH_SIZE_ESTIMATE_H_
