#include "model/source/model_source.h"

namespace ballast::model {

BlockParts ModelSource::parts(std::size_t layer) const {
  return {.linear = [this, layer](Part part) { return linear(part.role, layer, part.expert); },
          .norm = [this, layer](Role role) { return norm(role, layer); },
          .vector = [this, layer](Role role) { return vector(role, layer); }};
}

BlockWeights ModelSource::block(std::size_t layer) const {
  return assemble_block(spec(), layer, parts(layer));
}

}  // namespace ballast::model
