// Small safetensors files that are made in memory.
#ifndef BALLAST_FILES_SAFETENSORS_SAFETENSORS_BYTES_H_
#define BALLAST_FILES_SAFETENSORS_SAFETENSORS_BYTES_H_

#include <map>
#include <string>

#include "ballast/tensor.h"

namespace ballast::files {

/// Returns the bytes of a file with these tensors in the order of their names, without gaps and without checksums.
/// Texts of the metadata that are no UTF-8 are mended. A model's files, which are written tensor by tensor, come from
/// SafetensorsWriter.
std::string safetensors_bytes(const std::map<std::string, TensorView>& tensors,
                              const std::map<std::string, std::string>& metadata);

}  // namespace ballast::files

#endif  // BALLAST_FILES_SAFETENSORS_SAFETENSORS_BYTES_H_
