#include "quant/passes.h"

namespace ballast::quant {

std::vector<std::unique_ptr<Pass>> make_passes(const Recipe& recipe) {
  std::vector<std::unique_ptr<Pass>> passes;
  if (recipe.fold_norms) passes.push_back(make_fold_norms());
  if (recipe.outlier_fraction > 0) {
    passes.push_back(make_split_outliers(recipe.outlier_fraction, recipe.activations));
  }
  passes.push_back(make_quantize());
  return passes;
}

}  // namespace ballast::quant
