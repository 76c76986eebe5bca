// One safetensors file: tensors and the metadata beside them.
#ifndef BALLAST_FILES_SAFETENSORS_SAFETENSORS_FILE_H_
#define BALLAST_FILES_SAFETENSORS_SAFETENSORS_FILE_H_

#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "files/mapped_file.h"
#include "files/tensor_layout.h"

namespace ballast::files {

/// The metadata key that holds a tensor's content_digits() is this and the tensor's name.
inline constexpr std::string_view kChecksumPrefix = "xxh3.";

/// What a safetensors file says; tensors are views of the bytes it was parsed from.
struct SafetensorsContent {
  TensorTable tensors;
  UnreadTensors unread;  ///< of types that ballast does not read
  std::map<std::string, std::string, std::less<>> metadata;
};

/// Parses and checks a whole file that is in memory; `context` names it in messages. Throws Error.
SafetensorsContent parse_safetensors(std::span<const std::byte> file, std::string_view context);

/// The same for a file on disk, mapped for as long as this lives.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  std::span<const std::byte> bytes() const { return file_.bytes(); }
  const TensorTable& tensors() const { return content_.tensors; }
  const UnreadTensors& unread_tensors() const { return content_.unread; }
  const std::map<std::string, std::string, std::less<>>& metadata() const { return content_.metadata; }

  /// MappedFile::check_whole.
  void check_whole() const { file_.check_whole(); }

  /// Whether the file has the tensor, of a type that can be read or not.
  bool contains(std::string_view name) const {
    return content_.tensors.contains(name) || content_.unread.contains(name);
  }

  /// Throws Error naming the file when it has no tensor of that name, or one of a type that is not read.
  const TensorView& tensor(std::string_view name) const;

  /// Compares every tensor that has a checksum with it, on all OpenMP threads. Throws Error naming the first that
  /// differs.
  void verify_checksums() const;

 private:
  MappedFile file_;
  SafetensorsContent content_;
};

}  // namespace ballast::files

#endif  // BALLAST_FILES_SAFETENSORS_SAFETENSORS_FILE_H_
