#include "model/source/model_source.h"

namespace ballast::model {

std::unique_ptr<const ModelSource> ModelSource::draft_head() const {
  std::optional<TensorLocator> locator = locator_.draft_head();
  if (!locator) return nullptr;
  auto head = std::make_unique<ModelSource>(*std::move(locator));
  head->set_compute(compute());
  head->set_code_activations(code_activations());
  return head;
}

BlockParts ModelSource::parts(std::size_t layer) const {
  return {.linear = [this, layer](Part part) { return linear(part.role, layer, part.expert); },
          .norm = [this, layer](Role role) { return norm(role, layer); },
          .vector = [this, layer](Role role) { return vector(role, layer); }};
}

BlockWeights ModelSource::block(std::size_t layer) const {
  return assemble_block(spec(), layer, parts(layer));
}

}  // namespace ballast::model
