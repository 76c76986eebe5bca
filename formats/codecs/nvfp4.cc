#include "formats/codecs/nvfp4.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <span>

#include "formats/codecs/float4.h"
#include "formats/codecs/float8.h"

namespace ballast::formats {

namespace {

struct Nvfp4Views {
  TensorView codes;
  TensorView scales;
  TensorView matrix_scale;
};

Nvfp4Views nvfp4_views(const ModuleTensors& tensors, const Nvfp4Tensors& parts, std::size_t rows, std::size_t cols) {
  if (cols % kNvfp4Group != 0) {
    tensors.fail(parts.codes, "has rows of " + std::to_string(cols) + " columns, not of whole groups of " +
                                  std::to_string(kNvfp4Group));
  }
  Nvfp4Views views;
  views.codes = tensors.get(parts.codes, {DType::kU8}, {rows, cols / 2});
  views.scales = tensors.get(parts.scales, {DType::kF8_E4M3}, {rows, cols / kNvfp4Group});
  views.matrix_scale = tensors.get(parts.matrix_scale, {DType::kF32});
  if (views.matrix_scale.shape.size() > 1 || element_count(views.matrix_scale.shape) != 1) {
    tensors.fail(parts.matrix_scale,
                 "has shape " + shape_string(views.matrix_scale.shape) + ", expected one value for the whole matrix");
  }
  return views;
}

/// Returns the scale that each code of a group's scale has, with the scale of the matrix.
std::array<float, 256> group_scale_table(const ModuleTensors& tensors, const Nvfp4Tensors& parts,
                                         const Nvfp4Views& views) {
  const float matrix_scale = tensors.floats(parts.matrix_scale, views.matrix_scale).front();
  if (parts.divides && matrix_scale == 0) tensors.fail(parts.matrix_scale, "is 0, which scales are divided by");
  std::array<float, 256> table{};
  for (std::size_t code = 0; code < table.size(); ++code) {
    const float scale = float8_value(static_cast<std::uint8_t>(code));
    table[code] = parts.divides ? scale / matrix_scale : scale * matrix_scale;
  }
  for (std::size_t i = 0; i < views.scales.bytes.size(); ++i) {
    if (std::isfinite(table[std::to_integer<std::size_t>(views.scales.bytes[i])])) continue;
    tensors.fail(parts.scales, "the scale of group " + std::to_string(i) + " is not finite");
  }
  return table;
}

}  // namespace

std::vector<std::string> check_nvfp4(const ModuleTensors& tensors, const Nvfp4Tensors& parts, std::size_t rows,
                                     std::size_t cols) {
  nvfp4_views(tensors, parts, rows, cols);
  return {tensors.name(parts.codes), tensors.name(parts.scales), tensors.name(parts.matrix_scale)};
}

StoredCodes nvfp4_codes(const ModuleTensors& tensors, const Nvfp4Tensors& parts, std::size_t rows, std::size_t cols) {
  const Nvfp4Views views = nvfp4_views(tensors, parts, rows, cols);
  StoredCodes stored;
  stored.type = parts.type;
  stored.decode_row = [codes = views.codes.bytes, scales = views.scales.bytes,
                       table = group_scale_table(tensors, parts, views), cols](std::size_t row, float* dst) {
    const std::size_t groups = cols / kNvfp4Group;
    for (std::size_t group = row * groups; group < (row + 1) * groups; ++group) {
      decode_float4(codes.subspan(group * kNvfp4Group / 2, kNvfp4Group / 2),
                    table[std::to_integer<std::size_t>(scales[group])], dst);
      dst += kNvfp4Group;
    }
  };
  return stored;
}

}  // namespace ballast::formats
