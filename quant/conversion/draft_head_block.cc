#include "quant/conversion/draft_head_block.h"

#include <algorithm>
#include <cstddef>

#include "quant/passes/passes.h"
#include "quant/quantize/quantize.h"
#include "quant/search/format_chooser.h"

namespace ballast::quant {

DraftHeadBlock::DraftHeadBlock(const model::ModelSource& source, const Recipe& recipe, const ModelFormat& format)
    : recipe_(recipe) {
  if (!source.has_draft_head()) return;
  if (!format.holds_draft_head()) {
    note_ = kDraftHeadLeftOut;
  } else if (recipe.rotate) {
    note_ = "draft head (multi-token prediction): left out, because it reads the residual stream, which is rotated";
  } else {
    source_ = source.draft_head();
    if (recipe.linears.quantizes()) {
      note_ = "draft head (multi-token prediction): kept, in 8 bits or more and rounded without samples";
    }
  }
}

WorkingBlock DraftHeadBlock::load(bool values) const {
  constexpr WeightFormat kEightBits = {.bits = 8, .group_size = 64};
  const ModelSpec& spec = source_->spec();
  const std::size_t index = spec.layers.size();  // the first block has index 1
  WorkingBlock block = WorkingBlockLoader(*source_, nullptr, {}).load(index, values);
  FormatChooser(recipe_, spec, {}).choose(block, index);
  for (WorkingLinear& linear : block.linears) {
    if (linear.free_format && linear.format.bits < kEightBits.bits) linear.format = kEightBits;
    linear.free_format = false;
  }
  // The folds: they decide which biases all blocks of the output have.
  Recipe folds = recipe_;
  folds.equalize = folds.smooth = folds.rotate_values = false;
  folds.outlier_fraction = 0;
  ModelSpec after = spec;
  for (const std::unique_ptr<Pass>& pass : make_passes(folds, after, nullptr)) pass->run(block);
  return block;
}

std::vector<ModulePlan> DraftHeadBlock::plan() const {
  if (!kept()) return {};
  return plan_modules(load(false), source_->spec().norm.bias);
}

std::vector<ConvertedModule> DraftHeadBlock::convert(const std::vector<float>& final_gain) const {
  WorkingBlock block = load(true);
  const std::vector<float> original = source_->norm(model::Role::kFinalNorm).gain;
  std::vector<float>& gain = std::ranges::find(block.norms, model::Role::kDraftNorm, &WorkingNorm::role)->gain;
  for (std::size_t c = 0; c < gain.size(); ++c) {
    if (original[c] != 0) gain[c] *= final_gain[c] / original[c];  // of 0, the model's head reads nothing
  }
  quantize(block, recipe_.rounding);
  return take_modules(std::move(block), source_->spec().norm.bias);
}

}  // namespace ballast::quant
