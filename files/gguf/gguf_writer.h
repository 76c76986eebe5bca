// Writes a GGUF file, version 3.
#ifndef BALLAST_FILES_GGUF_GGUF_WRITER_H_
#define BALLAST_FILES_GGUF_GGUF_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "ballast/tensor.h"
#include "files/output_file.h"
#include "files/safetensors/safetensors_writer.h"

namespace ballast::files {

/// A key of the metadata and its value.
struct GgufField {
  using Value = std::variant<std::uint32_t, std::int32_t, float, bool, std::string, std::vector<std::string>,
                             std::vector<std::int32_t>, std::vector<float>>;
  std::string key;
  Value value;
};

/// Returns the size of the file that a GgufWriter writes for fields and tensors.
std::uint64_t planned_gguf_bytes(std::span<const GgufField> fields, std::span<const TensorPlan> plan);

/// Writes the planned tensors in their order, one at a time. Shapes are row-major, as everywhere in ballast; the file
/// has sizes in reverse order. The same fields, plan and values give the same bytes. Throws Error naming the file if
/// the disk is full or fails.
class GgufWriter {
 public:
  /// Creates the file and allocates its whole size on disk.
  GgufWriter(const std::filesystem::path& path, std::span<const GgufField> fields, std::vector<TensorPlan> plan);

  /// Writes the next tensor of the plan. Its type may differ from the planned one if the size is the same.
  void write(DType dtype, std::span<const std::byte> bytes);

  /// Writes the header, syncs and closes. Every planned tensor must have been written. Returns the file's size.
  std::uint64_t finish();

 private:
  std::string fields_;  ///< in the file's format
  std::size_t field_count_;
  std::vector<TensorPlan> plan_;
  OutputFile file_;
  std::size_t next_ = 0;
  std::uint64_t data_begin_ = 0;
  std::uint64_t position_ = 0;  ///< of the next tensor, from there
};

}  // namespace ballast::files

#endif  // BALLAST_FILES_GGUF_GGUF_WRITER_H_
