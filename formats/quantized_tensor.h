// A quantized matrix and its tensors in a checkpoint: names, types and shapes. docs/format.md specifies them.
#ifndef BALLAST_FORMATS_QUANTIZED_TENSOR_H_
#define BALLAST_FORMATS_QUANTIZED_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ballast/quantized.h"
#include "ballast/recipe.h"
#include "files/checkpoint.h"
#include "files/safetensors/safetensors_writer.h"

namespace ballast::formats {

/// A quantized matrix with its memory.
struct QuantizedTensor {
  QuantizedTensor() = default;
  explicit QuantizedTensor(const QuantizedView& view);  ///< copies all parts

  std::size_t rows = 0;
  std::size_t cols = 0;
  int bits = 8;
  CodebookId codebook = CodebookId::kUniform;
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

/// Unpacks the codes of row `row`; `codes` has `cols` elements.
void unpack_row(const QuantizedView& matrix, std::size_t row, std::span<std::uint8_t> codes);

/// Returns the scales of a row's groups, [groups()].
std::vector<float> group_scales(const QuantizedView& matrix, std::size_t row);

/// Returns the zero points of a row's groups, [groups()]; with a codebook, those of its values.
std::vector<std::uint8_t> group_zeros(const QuantizedView& matrix, std::size_t row);

/// The properties of a quantized matrix that determine its tensors.
struct QuantizedShape {
  std::size_t rows = 0;
  std::size_t cols = 0;
  WeightFormat format;              ///< one of ballast's own
  std::size_t outlier_columns = 0;  ///< kept in 16 bits
  DType scale_type = DType::kF16;
  DType outlier_type = DType::kF16;
};

/// Returns the tensors that store such a matrix of `module`, in the order in which they are written.
std::vector<files::TensorPlan> quantized_plans(const std::string& module, const QuantizedShape& shape);

/// A tensor with its bytes.
struct QuantizedPart {
  files::TensorPlan plan;
  std::span<const std::byte> bytes;
};
std::vector<QuantizedPart> quantized_parts(const std::string& module, const QuantizedView& view);

/// Returns the names of those tensors that a checkpoint has.
std::vector<std::string> quantized_tensor_names(const files::Checkpoint& checkpoint, const std::string& module);

/// A quantized matrix in a checkpoint, after the checks. Valid as long as the checkpoint, because large parts are not
/// copied out of its memory map.
class StoredQuantizedTensor {
 public:
  /// Throws Error with file and tensor if types, shapes or values (finite scales, ascending columns) are not as
  /// docs/format.md specifies.
  StoredQuantizedTensor(const files::Checkpoint& checkpoint, const std::string& module, const WeightFormat& format,
                        std::size_t rows, std::size_t cols);
  StoredQuantizedTensor(const StoredQuantizedTensor&) = delete;
  StoredQuantizedTensor& operator=(const StoredQuantizedTensor&) = delete;

  const QuantizedView& view() const { return view_; }

  /// Tells the kernel that the large parts are not needed at present.
  void release() const;

 private:
  const files::Checkpoint& checkpoint_;
  std::string module_;
  QuantizedView view_;
  std::vector<std::uint16_t> decoded_scales_;  ///< if the stored ones have 8 bits
  std::vector<std::int32_t> outlier_columns_;
};

/// Throws Error naming the first value of an F32, F16 or BF16 tensor that is not finite.
void check_finite(const TensorView& view, const std::string& context);

}  // namespace ballast::formats

#endif  // BALLAST_FORMATS_QUANTIZED_TENSOR_H_
