#include "quant/write/huggingface/matrix_layout.h"

#include <utility>

namespace ballast::quant {

std::vector<StoredPart> MatrixLayout::parts(const ModulePlan& module, const RoundedMatrix& matrix,
                                            DType scale_type) const {
  std::vector<std::vector<std::byte>> bytes = contents(module, matrix, scale_type);
  std::vector<StoredPart> parts;
  for (files::TensorPlan& plan : tensors(module, scale_type)) {
    parts.push_back({std::move(plan), std::move(bytes[parts.size()])});
  }
  return parts;
}

}  // namespace ballast::quant
