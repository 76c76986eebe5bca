#include "quant/conversion/prepared_blocks.h"

#include <algorithm>
#include <iterator>

namespace ballast::quant {

namespace {

/// Returns whether ranges of a vocabulary's rows get formats of their own: only if all of them are chosen by a search.
bool splits_vocabulary(const Preparation& preparation, const FormatChooser& formats) {
  const auto is_named = [&](model::Role role) { return formats.names_format_of(preparation.source().name(role)); };
  return preparation.recipe().target_bytes > 0 && preparation.format().splits_vocabulary() &&
         !is_named(model::Role::kEmbedding) && !is_named(model::Role::kHead);
}

}  // namespace

Preparation::Preparation(const model::ModelSource& source, const Recipe& recipe, const ModelFormat& format)
    : source_(source), recipe_(recipe), format_(format), amplified_(amplified_layers(recipe, source)) {}

PreparedBlocks::PreparedBlocks(const Preparation& preparation, const Allocation* allocation)
    : preparation_(preparation),
      allocation_(allocation),
      formats_(preparation.recipe(), preparation.source().spec(), preparation.amplified()),
      loader_(preparation.source(), preparation.statistics(),
              {.untie_head = preparation.recipe().untie_head,
               .split_vocabulary = quant::splits_vocabulary(preparation, formats_)}),
      spec_(preparation.source().spec()) {
  if (preparation.recipe().untie_head) spec_.tied_embeddings = false;
  passes_ = make_passes(preparation.recipe(), spec_, preparation.smoothing());
}

WorkingBlock PreparedBlocks::load(std::size_t index, Values values) {
  WorkingBlock block = loader_.load(index, values == Values::kAll);
  if (values == Values::kAll && index > 0 && index <= spec_.layers.size()) {
    preparation_.source().release_block(index - 1);
  }
  formats_.choose(block, index);
  for (const auto& pass : passes_) pass->run(block);
  if (allocation_ != nullptr) apply_allocation(*allocation_, block);
  if (index + 1 == count()) formats_.check_overrides();
  return block;
}

std::vector<std::string> PreparedBlocks::notes() const {
  std::vector<std::string> notes;
  for (const auto& pass : passes_) notes.push_back(pass->note());
  return notes;
}

std::vector<ModulePlan> plan_model(const Preparation& preparation) {
  PreparedBlocks blocks(preparation);
  std::vector<ModulePlan> plan;
  for (std::size_t i = 0; i < blocks.count(); ++i) {
    const WorkingBlock block = blocks.load(i, PreparedBlocks::Values::kNone);
    std::ranges::move(plan_modules(block, blocks.spec().norm.bias), std::back_inserter(plan));
  }
  return plan;
}

}  // namespace ballast::quant
