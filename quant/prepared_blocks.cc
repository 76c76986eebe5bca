#include "quant/prepared_blocks.h"

namespace ballast::quant {

PreparedBlocks::PreparedBlocks(const ConversionInput& input)
    : input_(input),
      loader_(input.source, input.statistics, input.recipe.untie_head),
      formats_(input.recipe, input.source.spec()),
      spec_(input.source.spec()) {
  if (input.recipe.untie_head) spec_.tied_embeddings = false;
  passes_ = make_passes(input.recipe, spec_);
}

WorkingBlock PreparedBlocks::load(std::size_t index, Values values) {
  WorkingBlock block = loader_.load(index, values == Values::kAll);
  if (index > 0 && index <= spec_.layers.size()) input_.source.release_block(index - 1);
  formats_.choose(block, index);
  for (const auto& pass : passes_) pass->run(block);
  if (input_.allocation != nullptr) apply_allocation(*input_.allocation, block);
  if (index + 1 == count()) formats_.check_exceptions();
  return block;
}

std::vector<std::string> PreparedBlocks::notes() const {
  std::vector<std::string> notes;
  for (const auto& pass : passes_) notes.push_back(pass->note());
  return notes;
}

}  // namespace ballast::quant
