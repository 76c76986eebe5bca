// A model's files, opened for reading: named tensors that stay in the mapped file, and the configuration.
#ifndef BALLAST_FILES_CHECKPOINT_H_
#define BALLAST_FILES_CHECKPOINT_H_

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/tensor.h"
#include "files/tensor_layout.h"

namespace ballast::files {

/// A read-only, memory-mapped checkpoint. Opening it checks the whole layout: every tensor is inside its file, none
/// overlap, sizes agree with shapes. Values are checked where they are used. Safe to read from several threads.
class Checkpoint {
 public:
  enum class Kind { kHuggingFace, kGguf };

  virtual ~Checkpoint() = default;

  virtual Kind kind() const = 0;

  /// Returns the opened path, which messages name.
  const std::filesystem::path& path() const { return path_; }

  /// Returns config.json of a Hugging Face directory, or the metadata of a GGUF as a flat object,
  /// {"general.architecture": "llama", "llama.block_count": 30, ...}; arrays of more than 64 elements (the vocabulary)
  /// and of arrays are left out, see GgufFile.
  virtual const nlohmann::json& config() const = 0;

  /// Returns the names of readable tensors, sorted, as in the file.
  virtual const std::vector<std::string>& names() const = 0;

  /// Returns whether the file has the tensor, also in a type that cannot be read.
  virtual bool contains(std::string_view name) const = 0;

  /// Returns the tensor's bytes in the map. Throws Error naming file and tensor if it does not exist, or is one of
  /// unread_tensors(). GGUF shapes are reversed to outermost first, as everywhere else in ballast.
  virtual TensorView tensor(std::string_view name) const = 0;

  /// Returns the tensors of types that ballast does not read, which are errors only if they are needed.
  virtual const UnreadTensors& unread_tensors() const;

  /// Tells the kernel that the tensor's pages are not needed for now (they are read from the file again when accessed).
  virtual void release(std::string_view name) const = 0;

  /// Checks every tensor that has a checksum, on all OpenMP threads. Throws Error naming file and tensor if one
  /// differs. Does nothing for files without checksums.
  virtual void verify_checksums() const {}

  /// Throws Error naming a file that has become shorter since it was opened: reading the missing part would end the
  /// program.
  virtual void check_whole() const {}

  /// Returns the sum of the tensor files' sizes.
  virtual std::uint64_t file_bytes() const = 0;

 protected:
  explicit Checkpoint(std::filesystem::path path) : path_(std::move(path)) {}

 private:
  std::filesystem::path path_;
};

/// Opens a directory with config.json and model.safetensors (or model.safetensors.index.json and its shards), or a
/// `.gguf` file. Throws Error.
std::unique_ptr<Checkpoint> open_checkpoint(const std::filesystem::path& path);

}  // namespace ballast::files

#endif  // BALLAST_FILES_CHECKPOINT_H_
