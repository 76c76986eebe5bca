#include "model/source/float_linear.h"

#include <cstddef>
#include <utility>

#include "ballast/error.h"
#include "files/text.h"
#include "formats/decode_floats.h"

namespace ballast::model {

std::vector<float> checked_values(const TensorView& view, const std::string& context, const Shape& shape,
                                  std::string_view origin) {
  if (view.shape != shape) {
    throw Error(context, files::concat("has shape ", shape_string(view.shape), ", ", origin, " ", shape_string(shape)));
  }
  std::vector<float> values(static_cast<std::size_t>(element_count(shape)));
  formats::decode_floats(view, context, values.data());
  return values;
}

Linear float_linear(std::string name, std::vector<float> weights, const Shape& shape, const ComputeOptions& compute) {
  FloatMatrixHolder holder;
  holder.compute = compute;
  holder.owned = std::move(weights);
  holder.matrix = {.data = holder.owned.data(),
                   .type = kernels::FloatType::kF32,
                   .rows = static_cast<std::size_t>(shape[0]),
                   .cols = static_cast<std::size_t>(shape[1])};
  Linear linear;
  linear.name = std::move(name);
  linear.weights = std::move(holder);
  return linear;
}

}  // namespace ballast::model
