#include "quant/prepared_blocks.h"

#include <algorithm>
#include <iterator>

namespace ballast::quant {

PreparedBlocks::PreparedBlocks(const PreparationInput& input)
    : input_(input),
      loader_(input.source, input.statistics, input.recipe.untie_head),
      formats_(input.recipe, input.source.spec(), amplified_layers(input.recipe, input.source)),
      spec_(input.source.spec()) {
  if (input.recipe.untie_head) spec_.tied_embeddings = false;
  passes_ = make_passes(input.recipe, spec_);
}

WorkingBlock PreparedBlocks::load(std::size_t index, Values values) {
  WorkingBlock block = loader_.load(index, values == Values::kAll);
  if (values == Values::kAll && index > 0 && index <= spec_.layers.size()) input_.source.release_block(index - 1);
  formats_.choose(block, index);
  for (const auto& pass : passes_) pass->run(block);
  if (input_.allocation != nullptr) apply_allocation(*input_.allocation, block);
  if (index + 1 == count()) formats_.check_overrides();
  return block;
}

std::vector<std::string> PreparedBlocks::notes() const {
  std::vector<std::string> notes;
  for (const auto& pass : passes_) notes.push_back(pass->note());
  return notes;
}

std::vector<ModulePlan> plan_model(const PreparationInput& input) {
  PreparedBlocks blocks(input);
  std::vector<ModulePlan> plan;
  for (std::size_t i = 0; i < blocks.count(); ++i) {
    const WorkingBlock block = blocks.load(i, PreparedBlocks::Values::kNone);
    std::ranges::move(plan_modules(block, blocks.spec().norm.bias), std::back_inserter(plan));
  }
  return plan;
}

}  // namespace ballast::quant
