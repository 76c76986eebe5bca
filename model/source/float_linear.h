// Linears in floats, read from files beside a checkpoint.
#ifndef BALLAST_MODEL_SOURCE_FLOAT_LINEAR_H_
#define BALLAST_MODEL_SOURCE_FLOAT_LINEAR_H_

#include <string>
#include <string_view>
#include <vector>

#include "ballast/compute_options.h"
#include "ballast/tensor.h"
#include "model/block/weights.h"

namespace ballast::model {

/// Returns a tensor's values. Throws Error if its shape is not the one that `origin` gives, or a value is not finite.
std::vector<float> checked_values(const TensorView& view, const std::string& context, const Shape& shape,
                                  std::string_view origin);

/// Returns a linear of `weights`, which has `shape`, without a bias.
Linear float_linear(std::string name, std::vector<float> weights, const Shape& shape, const ComputeOptions& compute);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_SOURCE_FLOAT_LINEAR_H_
