// A model's files, opened for reading: named tensors that stay in the mapped file, and the configuration.
#ifndef BALLAST_FILES_CHECKPOINT_H_
#define BALLAST_FILES_CHECKPOINT_H_

#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/tensor.h"
#include "files/tensor_layout.h"

namespace ballast::files {

/// Read-only, memory-mapped. Opening checks the whole layout: every tensor lies inside its file, none overlap, sizes
/// agree with shapes. Values are checked where they are used. Safe to read from several threads.
class Checkpoint {
 public:
  enum class Kind { kHuggingFace, kGguf };

  virtual ~Checkpoint() = default;

  virtual Kind kind() const = 0;

  /// The path that was opened; messages name it.
  const std::filesystem::path& path() const { return path_; }

  /// Hugging Face: config.json. GGUF: the metadata as a flat object, {"general.architecture": "llama",
  /// "llama.block_count": 30, ...}; arrays of more than 64 elements (the vocabulary) and of arrays are left out, see
  /// GgufFile.
  virtual const nlohmann::json& config() const = 0;

  /// Names of the tensors that can be read, as the file spells them, sorted.
  virtual const std::vector<std::string>& names() const = 0;

  /// Whether the file has the tensor, in a type that can be read or not.
  virtual bool contains(std::string_view name) const = 0;

  /// The tensor's bytes in the map. Throws Error naming file and tensor when it does not exist, or is one of
  /// unread_tensors(). GGUF shapes are given outermost first, as everywhere else in ballast.
  virtual TensorView tensor(std::string_view name) const = 0;

  /// Tensors of types that ballast does not read: an error only where one is needed.
  virtual const UnreadTensors& unread_tensors() const;

  /// Tells the kernel that the tensor's pages are not needed for now (they come back from the file when touched).
  virtual void release(std::string_view name) const = 0;

  /// Compares every tensor that was written with a checksum with it, on all OpenMP threads. Throws Error naming file
  /// and tensor where one differs. Does nothing for files without checksums.
  virtual void verify_checksums() const {}

  /// Throws Error naming a file that is shorter than it was when it was opened: reading what it lacks would end the
  /// program.
  virtual void check_whole() const {}

  /// Sum of the tensor files' sizes.
  virtual std::uint64_t file_bytes() const = 0;

 protected:
  explicit Checkpoint(std::filesystem::path path) : path_(std::move(path)) {}

 private:
  std::filesystem::path path_;
};

/// Opens a directory with config.json and model.safetensors (or model.safetensors.index.json and its shards), or a
/// `.gguf` file. Throws Error.
std::unique_ptr<Checkpoint> open_checkpoint(const std::filesystem::path& path);

/// Values of a floating or GGUF-quantized tensor as F32, decoded exactly (F64 is rounded). `dst` holds
/// element_count(view.shape) floats. Runs on all OpenMP threads. Throws Error(context, ...) for other types and when a
/// value is not finite. Of a tensor of many millions, `after_part` is called whenever a part was read, but for the
/// last.
void decode_floats(const TensorView& view, std::string_view context, float* dst,
                   const std::function<void()>& after_part = {});

}  // namespace ballast::files

#endif  // BALLAST_FILES_CHECKPOINT_H_
