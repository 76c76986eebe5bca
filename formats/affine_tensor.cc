#include "formats/affine_tensor.h"

#include <cassert>

#include "ballast/quantized.h"
#include "formats/codecs/integer_groups.h"
#include "formats/scale_codes.h"
#include "kernels/matrix/bit_packing.h"

namespace ballast::formats {

namespace {

std::vector<float> decoded(const std::vector<std::uint16_t>& halves, DType type) {
  std::vector<float> values(halves.size());
  kernels::to_float(halves.data(), scale_float_type(type), halves.size(), values.data());
  return values;
}

}  // namespace

kernels::QuantizedMatrix packed_affine(const AffineTensor& tensor) {
  IntegerGroups groups;
  groups.rows = tensor.rows;
  groups.cols = tensor.cols;
  groups.bits = tensor.bits;
  groups.group_size = tensor.group_size;
  groups.scales = decoded(tensor.scales, tensor.half_type);
  groups.offsets = decoded(tensor.offsets, tensor.half_type);
  groups.read_codes = [&tensor](std::size_t row, std::uint8_t* dst) {
    const std::uint8_t* codes = tensor.codes.data() + row * packed_row_bytes(tensor.cols, tensor.bits);
    kernels::unpack_codes(codes, tensor.bits, {dst, tensor.cols});
  };
  const CodecMatrix matrix = codec_matrix(std::move(groups));
  assert(matrix.form);
  return {*matrix.form, matrix.read_row};
}

}  // namespace ballast::formats
