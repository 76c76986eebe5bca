// The codec of ballast's own format: the tensors of a quantized matrix and what they hold, which docs/format.md
// specifies.
#ifndef BALLAST_FORMATS_CODECS_BALLAST_H_
#define BALLAST_FORMATS_CODECS_BALLAST_H_

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

/// Returns the formats that a search may give to a matrix.
std::vector<WeightFormat> ballast_candidates();

/// Returns whether a format that quantizes is one of ballast's; a matrix of any shape fits.
bool holds_in_ballast(const WeightFormat& format);

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

/// Returns the name of the module that holds a range of consecutive rows of a module's matrix.
std::string row_range_name(const std::string& module, std::size_t index);

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

}  // namespace ballast::formats

#endif  // BALLAST_FORMATS_CODECS_BALLAST_H_
