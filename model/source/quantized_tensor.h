// A quantized matrix in a checkpoint: its parts' names, types and shapes. docs/format.md specifies them.
#ifndef BALLAST_MODEL_SOURCE_QUANTIZED_TENSOR_H_
#define BALLAST_MODEL_SOURCE_QUANTIZED_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ballast/quantized.h"
#include "ballast/recipe.h"
#include "files/checkpoint.h"
#include "files/safetensors/safetensors_writer.h"
#include "kernels/matrix/quantized_matrix.h"

namespace ballast::model {

/// `version` of quantization_config.
inline constexpr std::size_t kQuantizationVersion = 1;

/// Owner of what a QuantizedView shows.
struct QuantizedTensor {
  std::size_t rows = 0;
  std::size_t cols = 0;
  int bits = 8;
  std::size_t group_size = 0;
  std::vector<std::uint8_t> codes;
  DType scale_type = DType::kF16;
  std::vector<std::uint16_t> scales;
  std::vector<std::uint8_t> scale_codes;
  std::vector<std::uint16_t> row_scales;
  std::vector<std::uint8_t> zeros;
  std::vector<std::int32_t> outlier_columns;
  DType outlier_type = DType::kF16;
  std::vector<std::uint16_t> outlier_weights;

  QuantizedView view() const;
};

/// The tensors that hold a matrix of `module` on disk, in the order in which they are written.
struct QuantizedPart {
  files::TensorPlan plan;
  std::span<const std::byte> bytes;
};
std::vector<QuantizedPart> quantized_parts(const std::string& module, const QuantizedView& view);

/// Reads, checks (shapes, finite scales, ascending columns) and repacks. Throws Error naming file and tensor.
kernels::QuantizedMatrix load_quantized_matrix(const files::Checkpoint& checkpoint, const std::string& module,
                                               const WeightFormat& format, std::size_t rows, std::size_t cols);

/// Throws Error naming the first value of an F32, F16 or BF16 tensor that is not finite.
void check_finite(const TensorView& view, const std::string& context);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_SOURCE_QUANTIZED_TENSOR_H_
