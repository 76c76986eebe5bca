// Writes tensors as safetensors, in one file or in shards, completely or not at all.
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

/// A planned tensor. The plan is known before any values are, and with it the position of each tensor.
struct TensorPlan {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
};

/// Returns the bytes of one tensor. Throws Error naming `context` if it does not fit memory.
std::uint64_t planned_bytes(const TensorPlan& tensor, std::string_view context = "plan");

/// Files with more bytes of tensors are split into shards.
inline constexpr std::uint64_t kShardBytes = std::uint64_t{5} * 1000 * 1000 * 1000;

/// Returns the bytes of all files that a SafetensorsWriter writes for a plan, including headers.
std::uint64_t planned_file_bytes(std::vector<TensorPlan> plan, std::map<std::string, std::string> metadata = {},
                                 std::uint64_t shard_bytes = kShardBytes);

/// Writes the planned tensors into `directory`: model.safetensors, or above `shard_bytes`
/// model-00001-of-0000N.safetensors with model.safetensors.index.json. Each tensor is written by one call in the order
/// of the plan, so that one tensor is in memory at a time. The XXH3-64 checksum of each tensor is stored in the
/// metadata as "xxh3.NAME" (16 hex digits). "format": "pt" is added, without which transformers does not load a file.
/// Disk space is allocated at once. The same plan, values and metadata give the same bytes. Throws Error naming the
/// file if the disk is full or fails.
class SafetensorsWriter {
 public:
  SafetensorsWriter(const std::filesystem::path& directory, std::vector<TensorPlan> plan,
                    std::map<std::string, std::string> metadata, std::uint64_t shard_bytes = kShardBytes);
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  /// Writes the next tensor of the plan; `name` and the number of bytes must match it (std::logic_error otherwise). Its
  /// type may differ from the planned one.
  void write(std::string_view name, std::span<const std::byte> bytes);
  void write(std::string_view name, DType dtype, std::span<const std::byte> bytes);

  /// Writes the headers, syncs and closes. Every planned tensor must have been written. If other types than planned
  /// change the length of a header, the file's tensors are moved.
  void finish();

  /// Returns the bytes of all tensor files; valid after finish().
  std::uint64_t file_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ballast::files

#endif  // BALLAST_FILES_SAFETENSORS_SAFETENSORS_WRITER_H_
