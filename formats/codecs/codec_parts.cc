#include "formats/codecs/codec_parts.h"

#include <algorithm>
#include <map>
#include <utility>

#include "ballast/error.h"

namespace ballast::formats {

std::size_t groups_of(const PlannedMatrix& matrix) {
  return matrix.format.group_size == 0 ? 1 : matrix.cols / matrix.format.group_size;
}

std::optional<WeightFormat> most_common_format(const PlannedModel& model) {
  std::map<std::pair<int, std::size_t>, std::size_t> weights;  // of bits and group sizes
  std::map<std::pair<int, std::size_t>, WeightFormat> formats;
  for (const PlannedMatrix& matrix : model.quantized) {
    const std::pair key = {matrix.format.bits, matrix.format.group_size};
    weights[key] += matrix.rows * matrix.cols;
    formats[key] = matrix.format;
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

void refuse_int8_activations(ActivationType activations, const std::string& program) {
  if (activations == ActivationType::kInt8) throw Error(program, "keeps activations in 16 bits: choose w4a16 or w8a16");
}

}  // namespace ballast::formats
