// Reads the tensors of a file that torch.save wrote: a zip archive of a pickled dictionary and of tensors' values. Only
// the instructions that such a dictionary needs are known, and none of them calls anything.
#ifndef BALLAST_FILES_TORCH_FILE_H_
#define BALLAST_FILES_TORCH_FILE_H_

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

#include "files/mapped_file.h"
#include "files/tensor_layout.h"

namespace ballast::files {

/// Returns the tensors in the bytes of such a file; `context` names it in messages. Throws Error for compressed parts,
/// for dictionaries of other things than tensors, and for tensors that are not contiguous or lie outside of their part.
TensorTable parse_torch_file(std::span<const std::byte> file, std::string_view context);

/// Such a file on disk, mapped during the lifetime of this object.
class TorchFile {
 public:
  explicit TorchFile(const std::filesystem::path& path)
      : file_(path), tensors_(parse_torch_file(file_.bytes(), path.string())) {}

  const std::filesystem::path& path() const { return file_.path(); }
  const TensorTable& tensors() const { return tensors_; }

  /// Throws Error naming the file if it has no tensor of that name.
  const TensorView& tensor(std::string_view name) const;

 private:
  MappedFile file_;
  TensorTable tensors_;
};

}  // namespace ballast::files

#endif  // BALLAST_FILES_TORCH_FILE_H_
