// Writing tensors as safetensors, in one file or in shards, complete or not at all.
#ifndef BALLAST_FILES_SAFETENSORS_SAFETENSORS_WRITER_H_
#define BALLAST_FILES_SAFETENSORS_SAFETENSORS_WRITER_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/tensor.h"

namespace ballast::files {

/// What will be written: known before any value is, so that the place of each tensor is.
struct TensorPlan {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
};

/// Of one tensor. Throws Error naming `context` when it does not fit memory.
std::uint64_t planned_bytes(const TensorPlan& tensor, std::string_view context = "plan");

/// Above so many bytes of tensors, files become shards.
inline constexpr std::uint64_t kShardBytes = std::uint64_t{5} * 1000 * 1000 * 1000;

/// Of all files that a SafetensorsWriter makes of a plan, headers included.
std::uint64_t planned_file_bytes(std::vector<TensorPlan> plan, std::map<std::string, std::string> metadata = {},
                                 std::uint64_t shard_bytes = kShardBytes);

/// Writes the planned tensors into `directory`: model.safetensors, or above `shard_bytes`
/// model-00001-of-0000N.safetensors with model.safetensors.index.json. Tensors arrive in the order of the plan, one
/// write each, so that one tensor is in memory at a time. The XXH3-64 checksum of each tensor goes into the metadata as
/// "xxh3.NAME" (16 hex digits). "format": "pt" is added, without which transformers does not load a file. Space is
/// taken from the disk at once. Same plan, values and metadata give the same bytes. Throws Error naming the file when
/// the disk is full or fails.
class SafetensorsWriter {
 public:
  SafetensorsWriter(const std::filesystem::path& directory, std::vector<TensorPlan> plan,
                    std::map<std::string, std::string> metadata, std::uint64_t shard_bytes = kShardBytes);
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  /// The next tensor of the plan; `name` and the number of bytes must match it (std::logic_error otherwise). Its type
  /// may turn out to be another one than planned.
  void write(std::string_view name, std::span<const std::byte> bytes);
  void write(std::string_view name, DType dtype, std::span<const std::byte> bytes);

  /// Writes the headers, syncs and closes. Every planned tensor must have been written. Where other types than planned
  /// make a header longer or shorter, the file's tensors are moved.
  void finish();

  /// Bytes of all tensor files; valid after finish().
  std::uint64_t file_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ballast::files

#endif  // BALLAST_FILES_SAFETENSORS_SAFETENSORS_WRITER_H_
