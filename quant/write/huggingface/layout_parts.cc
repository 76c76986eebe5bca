#include "quant/write/huggingface/layout_parts.h"

#include <algorithm>
#include <map>
#include <utility>

#include "kernels/matrix/bit_packing.h"
#include "model/block_structure.h"
#include "quant/rounding/rounded_matrix.h"

namespace ballast::quant {

std::size_t groups_of(const ModulePlan& module) {
  return module.format.group_size == 0 ? 1 : module.cols / module.format.group_size;
}

std::optional<WeightFormat> most_common_format(std::span<const ModulePlan> model) {
  std::map<std::pair<int, std::size_t>, std::size_t> weights;  // of bits and group sizes
  std::map<std::pair<int, std::size_t>, WeightFormat> formats;
  for (const ModulePlan* module : quantized_modules(model)) {
    const std::pair key = {module->format.bits, module->format.group_size};
    weights[key] += module->weights();
    formats[key] = module->format;
  }
  if (weights.empty()) return {};
  return formats[std::ranges::max_element(weights, {}, [](const auto& entry) { return entry.second; })->first];
}

std::vector<WeightFormat> symmetric_formats() {
  std::vector<WeightFormat> formats;
  for (const std::size_t group_size : {std::size_t{128}, std::size_t{64}, std::size_t{32}}) {
    for (const int bits : {4, 8}) formats.push_back({.bits = bits, .group_size = group_size});
  }
  return formats;
}

std::vector<std::uint8_t> codes_of(const formats::QuantizedTensor& tensor) {
  std::vector<std::uint8_t> codes(tensor.rows * tensor.cols);
  const std::size_t row_bytes = packed_row_bytes(tensor.cols, tensor.bits);
  for (std::size_t r = 0; r < tensor.rows; ++r) {
    kernels::unpack_codes(tensor.codes.data() + r * row_bytes, tensor.bits,
                          std::span(codes).subspan(r * tensor.cols, tensor.cols));
  }
  return codes;
}

std::vector<std::uint8_t> zeros_of(const formats::QuantizedTensor& tensor) {
  std::vector<std::uint8_t> zeros;
  for (std::size_t r = 0; r < tensor.rows; ++r) {
    for (const QuantParams& grid : grids_of_row(tensor.view(), r)) {
      zeros.push_back(static_cast<std::uint8_t>(grid.zero_point));
    }
  }
  return zeros;
}

std::vector<float> scales_of(const formats::QuantizedTensor& tensor) {
  std::vector<float> scales;
  for (std::size_t r = 0; r < tensor.rows; ++r) {
    for (const QuantParams& grid : grids_of_row(tensor.view(), r)) scales.push_back(grid.scale);
  }
  return scales;
}

std::vector<const ModulePlan*> quantized_modules(std::span<const ModulePlan> model) {
  std::vector<const ModulePlan*> modules;
  for (const ModulePlan& module : model) {
    if (module.is_quantized()) modules.push_back(&module);
  }
  return modules;
}

std::vector<std::string> plain_linears(std::span<const ModulePlan> model) {
  std::vector<std::string> names;
  bool has_head = false;
  for (const ModulePlan& module : model) {
    const model::Role role = module.id.role;
    has_head = has_head || role == model::Role::kHead;
    const bool linear = !model::is_norm(role) && !model::is_vector(role) && !is_embedding(role);
    if (linear && !module.is_quantized()) names.push_back(module.name);
  }
  if (!has_head) names.emplace_back("lm_head");  // the embedding, under its second name
  return names;
}

}  // namespace ballast::quant
