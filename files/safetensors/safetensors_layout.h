// Computes the positions of tensors in a planned safetensors file, and its header.
#ifndef BALLAST_FILES_SAFETENSORS_SAFETENSORS_LAYOUT_H_
#define BALLAST_FILES_SAFETENSORS_SAFETENSORS_LAYOUT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "files/safetensors/safetensors_writer.h"

namespace ballast::files {

/// The alignment of the data, and of every tensor whose size is a multiple of it.
inline constexpr std::uint64_t kTensorAlignment = 64;

/// A planned file. The format allows no gaps, so tensors are aligned by their order: those whose sizes have the largest
/// power of two as a factor come first; otherwise the plan's order is kept.
struct SafetensorsLayout {
  std::string header;                             ///< with its 8 bytes of length, padded; checksums are zeros
  std::vector<std::uint64_t> sizes;               ///< by plan index
  std::vector<std::uint64_t> positions;           ///< in the file, by plan index
  std::vector<std::uint64_t> checksum_positions;  ///< of the 16 digits in the file, by plan index
  std::uint64_t file_bytes = 0;
};

/// Throws Error naming `context` if a name occurs twice or a size does not fit memory.
SafetensorsLayout plan_safetensors(const std::vector<TensorPlan>& plan,
                                   const std::map<std::string, std::string>& metadata, std::string_view context);

}  // namespace ballast::files

#endif  // BALLAST_FILES_SAFETENSORS_SAFETENSORS_LAYOUT_H_
