// Reads one safetensors file: tensors and metadata.
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

/// The prefix of the metadata keys with tensors' content_digits(); the tensor's name follows.
inline constexpr std::string_view kChecksumPrefix = "xxh3.";

/// The contents of a safetensors file; tensors are views of the parsed bytes.
struct SafetensorsContent {
  TensorTable tensors;
  UnreadTensors unread;  ///< of types that ballast does not read
  std::map<std::string, std::string, std::less<>> metadata;
};

/// Parses and checks a whole file in memory; `context` names it in messages. Throws Error.
SafetensorsContent parse_safetensors(std::span<const std::byte> file, std::string_view context);

/// A safetensors file on disk, mapped during the lifetime of this object.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  std::span<const std::byte> bytes() const { return file_.bytes(); }
  const TensorTable& tensors() const { return content_.tensors; }
  const UnreadTensors& unread_tensors() const { return content_.unread; }
  const std::map<std::string, std::string, std::less<>>& metadata() const { return content_.metadata; }

  /// See MappedFile::check_whole.
  void check_whole() const { file_.check_whole(); }

  /// Returns whether the file has the tensor, also in a type that cannot be read.
  bool contains(std::string_view name) const {
    return content_.tensors.contains(name) || content_.unread.contains(name);
  }

  /// Throws Error naming the file if it has no tensor of that name, or one of a type that is not read.
  const TensorView& tensor(std::string_view name) const;

  /// Checks every tensor that has a checksum, on all OpenMP threads. Throws Error naming the first that differs.
  void verify_checksums() const;

 private:
  MappedFile file_;
  SafetensorsContent content_;
};

}  // namespace ballast::files

#endif  // BALLAST_FILES_SAFETENSORS_SAFETENSORS_FILE_H_
