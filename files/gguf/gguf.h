// GGUF v2/v3 files: metadata, vocabulary and tensors.
#ifndef BALLAST_FILES_GGUF_GGUF_H_
#define BALLAST_FILES_GGUF_GGUF_H_

#include "files/checkpoint.h"

namespace ballast::files {

/// A Checkpoint with access to the long metadata arrays that config() leaves out.
class GgufFile : public Checkpoint {
 public:
  using Checkpoint::Checkpoint;

  /// Returns the value of a metadata key, including arrays of any length; null if the key is absent.
  virtual nlohmann::json metadata(std::string_view key) const = 0;

  /// Returns the number of elements of an array without reading them, which would take 16 bytes of memory for one byte
  /// of the file. 0 for other values and an absent key.
  virtual std::size_t array_size(std::string_view key) const;
};

/// Opens the file, or all files of a model whose first part it is (gguf_parts.h). Throws Error naming file, offset and
/// reason.
std::unique_ptr<GgufFile> open_gguf(const std::filesystem::path& path);

}  // namespace ballast::files

#endif  // BALLAST_FILES_GGUF_GGUF_H_
