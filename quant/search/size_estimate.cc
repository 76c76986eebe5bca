#include "quant/search/size_estimate.h"

#include "model/block_structure.h"
#include "quant/search/usual_format.h"
#include "quant/working_block.h"

namespace ballast::quant {

namespace {

using model::Role;

double matrix_bytes(const Recipe& recipe, const ModelSpec& spec, std::size_t layer, Role role) {
  const auto [rows, cols] = model::matrix_shape(spec, layer, role);
  const auto weights = static_cast<double>(rows * cols);
  const WeightFormat format = usual_format(recipe, spec, role, 0);
  if (format.kind == WeightFormat::Kind::kF32) return 4 * weights;
  if (format.kind != WeightFormat::Kind::kInteger) return 2 * weights;
  const std::size_t groups = format.group_size == 0 ? 1 : (cols + format.group_size - 1) / format.group_size;
  const int bits_per_group = format.scale_bits + (format.symmetric ? 0 : format.bits);
  const double outliers = is_embedding(role) ? 0 : recipe.outlier_fraction * 16 * weights;
  return (format.bits * weights + static_cast<double>(rows * groups) * bits_per_group + outliers) / 8;
}

}  // namespace

std::uint64_t estimated_bytes(const Recipe& recipe, const ModelSpec& spec) {
  double bytes = 0;
  for (std::size_t layer = 0; layer < spec.layers.size(); ++layer) {
    for (const model::Part& part : model::block_linears(spec, layer))
      bytes += matrix_bytes(recipe, spec, layer, part.role);
  }
  for (const Role role : model::outer_roles(spec)) {
    if (!model::is_norm(role) && !model::is_vector(role)) bytes += matrix_bytes(recipe, spec, 0, role);
  }
  return static_cast<std::uint64_t>(bytes);
}

}  // namespace ballast::quant
