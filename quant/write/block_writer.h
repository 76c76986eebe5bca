// Writes converted blocks into a model's tensor files and keeps count of what they hold.
#ifndef BALLAST_QUANT_WRITE_BLOCK_WRITER_H_
#define BALLAST_QUANT_WRITE_BLOCK_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ballast/convert.h"
#include "files/safetensors/safetensors_writer.h"
#include "quant/search/allocation.h"
#include "quant/working_block.h"

namespace ballast::quant {

/// One tensor of a block as it is stored.
struct StoredTensor {
  files::TensorPlan plan;
  std::vector<std::byte> bytes;  ///< empty while planning
};

/// A linear, norm or vector with its tensors.
struct StoredModule {
  std::string name;
  std::string format;  ///< of the weights, for reports
  bool quantized = false;
  bool int16_activations = false;  ///< quantized: what it reads keeps 16 bits
  std::size_t weights = 0;         ///< elements
  std::uint64_t bytes_before = 0;
  std::vector<StoredTensor> tensors;
};

/// The type in which weights of a format that is no integer are stored.
DType float_dtype(WeightFormat::Kind kind);

/// Of norms and biases: few and sensitive, they keep 32 bits beside integers.
DType small_type(const Recipe& recipe);

/// All modules of a block in the order in which they are written. Norms, biases and vectors have the type `small`;
/// norms keep their bias when `norm_bias`. A block without values gives plans without bytes.
std::vector<StoredModule> store_block(const WorkingBlock& block, DType small, bool norm_bias);

/// Bytes of tensors, from their plans.
std::uint64_t planned_bytes(const files::TensorPlan& plan);
std::uint64_t planned_bytes(const std::vector<StoredModule>& modules);

/// What was written, alike tensors as one.
class StoredReport {
 public:
  void add(const std::vector<StoredModule>& modules);

  /// With what an allocation expected of each matrix, unless it is null.
  std::vector<TensorGroupReport> groups(const Allocation* allocation) const;

  /// Format of each quantized module by name.
  const std::map<std::string, std::string>& formats() const { return formats_; }

  /// Names of the quantized modules whose input keeps 16 bits.
  const std::vector<std::string>& int16_activation_modules() const { return int16_activation_modules_; }

 private:
  std::vector<TensorGroupReport> modules_;
  std::map<std::string, std::string> formats_;
  std::vector<std::string> int16_activation_modules_;
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_WRITE_BLOCK_WRITER_H_
