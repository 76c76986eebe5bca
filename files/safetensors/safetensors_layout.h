// Where each tensor of a planned safetensors file will lie, and its header.
#ifndef BALLAST_FILES_SAFETENSORS_SAFETENSORS_LAYOUT_H_
#define BALLAST_FILES_SAFETENSORS_SAFETENSORS_LAYOUT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "files/safetensors/safetensors_writer.h"

namespace ballast::files {

/// Tensor data begins on a multiple of this, and so does every tensor whose size is one.
inline constexpr std::uint64_t kTensorAlignment = 64;

/// A planned file. The format allows no gaps, so tensors are aligned by their order: those whose sizes have the largest
/// power of two as a factor come first, otherwise the plan's order stays.
struct SafetensorsLayout {
  std::string header;                             ///< with its 8 bytes of length and padded; checksums are zeros
  std::vector<std::uint64_t> sizes;               ///< by plan index
  std::vector<std::uint64_t> positions;           ///< in the file, by plan index
  std::vector<std::uint64_t> checksum_positions;  ///< of the 16 digits in the file, by plan index
  std::uint64_t file_bytes = 0;
};

/// Throws Error naming `context` when a name occurs twice or a size does not fit memory.
SafetensorsLayout plan_safetensors(const std::vector<TensorPlan>& plan,
                                   const std::map<std::string, std::string>& metadata, std::string_view context);

}  // namespace ballast::files

#endif  // BALLAST_FILES_SAFETENSORS_SAFETENSORS_LAYOUT_H_
