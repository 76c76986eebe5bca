#include "quant/passes/passes.h"

#include <utility>

#include "quant/quantize/outlier_channels.h"

namespace ballast::quant {

namespace {

bool has_foldable_biases(const ModelSpec& spec) {
  return spec.norm.bias || spec.biases.key || spec.biases.value;
}

}  // namespace

std::vector<std::unique_ptr<Pass>> make_passes(const Recipe& recipe, ModelSpec& spec,
                                               std::shared_ptr<SmoothingFactors> smoothing) {
  std::vector<std::unique_ptr<Pass>> passes;
  const auto add = [&](std::unique_ptr<Pass> pass) {
    pass->update_spec(spec);
    passes.push_back(std::move(pass));
  };
  if (recipe.fold_biases && has_foldable_biases(spec)) add(make_fold_biases(spec));
  if (recipe.fold_norms) add(make_fold_norms());
  if (recipe.center_norms && spec.norm.kind == NormSpec::Kind::kLayer) add(make_center_norms(spec));
  if (recipe.rotate) add(make_rotate_residual(spec, recipe.fold_norms));
  if (recipe.equalize) add(make_equalize(spec));
  if (recipe.rotate_values) add(make_rotate_values(spec));
  if (recipe.smooth) add(make_smooth(recipe, spec, std::move(smoothing)));
  if (recipe.float_type != DType::kF32) add(make_round_gains(recipe.float_type));
  // With a target size, the 16-bit columns are chosen together with the formats.
  if (splits_outliers(recipe)) add(make_split_outliers(recipe.outlier_fraction));
  return passes;
}

}  // namespace ballast::quant
