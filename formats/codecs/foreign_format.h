// Checkpoints that other programs quantized: what their config.json says and which tensors a matrix then has. Weights
// are read as they are, and never rounded a second time.
#ifndef BALLAST_FORMATS_CODECS_FOREIGN_FORMAT_H_
#define BALLAST_FORMATS_CODECS_FOREIGN_FORMAT_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "files/checkpoint.h"
#include "files/json_reader.h"
#include "kernels/matrix/quantized_rows.h"

namespace ballast::formats {

/// A matrix [rows = outputs, cols = inputs] whose scales were read and are finite. It reads from the checkpoint, which
/// must outlive it. Both functions may be called from several threads.
struct ForeignMatrix {
  std::optional<kernels::CodeLayout> form;  ///< one that stands for the same values exactly; else none
  kernels::QuantizedRowReader read_row;     ///< only where there is a form
  std::function<void(std::size_t row, float* dst)> decode_row;
};

/// The tensors of one matrix.
struct ForeignTensors {
  std::vector<std::string> names;
  std::string type;  ///< "GPTQ int4-g128": the program's name, bits and columns of a group
};

/// One program's way of storing matrices. Immutable.
class ForeignFormat {
 public:
  virtual ~ForeignFormat() = default;

  /// Whether the checkpoint has this module's matrix quantized; it may have others as plain tensors.
  virtual bool has(const files::Checkpoint& checkpoint, const std::string& module) const = 0;

  /// Outputs that the tensors of a module have, as far as their shapes tell; what follows checks the rest.
  /// Precondition of this and all below: has() it.
  virtual std::size_t stored_rows(const files::Checkpoint& checkpoint, const std::string& module) const = 0;

  /// What a matrix [rows, cols] consists of, after a check of all names, types and shapes, which reads no values.
  /// Throws Error.
  virtual ForeignTensors checked_tensors(const files::Checkpoint& checkpoint, const std::string& module,
                                         std::size_t rows, std::size_t cols) const = 0;

  /// The matrix, checked in the same way. Throws Error, for scales that are not finite, too.
  virtual ForeignMatrix matrix(const files::Checkpoint& checkpoint, const std::string& module, std::size_t rows,
                               std::size_t cols) const = 0;
};

/// What a config.json says about quantization by others; null where it says nothing of it. Throws Error for what
/// ballast does not read.
std::unique_ptr<const ForeignFormat> read_foreign_format(const files::JsonReader& config);

/// One for each program. `quantization` is what its config.json says of it.
std::unique_ptr<const ForeignFormat> make_compressed_tensors_format(const files::JsonReader& quantization);
std::unique_ptr<const ForeignFormat> make_gptq_format(const files::JsonReader& quantization);
std::unique_ptr<const ForeignFormat> make_awq_format(const files::JsonReader& quantization);
std::unique_ptr<const ForeignFormat> make_mlx_format(const files::JsonReader& quantization);
std::unique_ptr<const ForeignFormat> make_fp8_format(const files::JsonReader& quantization);

}  // namespace ballast::formats

#endif  // BALLAST_FORMATS_CODECS_FOREIGN_FORMAT_H_
