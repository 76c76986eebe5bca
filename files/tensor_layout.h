// Checks of tensor positions that all readers of tensor files share.
#ifndef BALLAST_FILES_TENSOR_LAYOUT_H_
#define BALLAST_FILES_TENSOR_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "ballast/tensor.h"

namespace ballast::files {

/// Tensors of one file by name; views into the file's bytes.
using TensorTable = std::map<std::string, TensorView, std::less<>>;

/// A tensor of a type that ballast does not read.
struct UnreadTensor {
  std::string type;  ///< as in the file
  Shape shape;
  std::uint64_t bytes = 0;
};
using UnreadTensors = std::map<std::string, UnreadTensor, std::less<>>;

/// Throws the Error for a tensor of `file` that cannot be read: it is one of `unread`, or missing.
[[noreturn]] void refuse_tensor(std::string_view file, std::string_view name, const UnreadTensors& unread);

/// Returns the bytes of a dense tensor. Throws Error(context, ...) if sizes do not fit memory or the last dimension is
/// not whole blocks of `dtype`.
std::size_t tensor_bytes(DType dtype, const Shape& shape, std::string_view context);

/// Returns "FILE: tensor \"NAME\"", the name of a tensor in messages.
std::string tensor_context(std::string_view file, std::string_view name);

/// Throws Error naming two tensors of `tensors` that share bytes of `file`.
void refuse_overlaps(const TensorTable& tensors, std::span<const std::byte> file, std::string_view context);

}  // namespace ballast::files

#endif  // BALLAST_FILES_TENSOR_LAYOUT_H_
