#include "files/tensor_layout.h"

#include <algorithm>
#include <vector>

#include "files/text.h"

namespace ballast::files {

std::size_t tensor_bytes(DType dtype, const Shape& shape, std::string_view context) {
  std::int64_t elements = 0;
  try {
    elements = element_count(shape);
  } catch (const Error& error) {
    throw Error(context, error.what());
  }
  const DTypeInfo& info = dtype_info(dtype);
  const auto per_block = static_cast<std::int64_t>(info.block_elements);
  if (per_block > 1 && (shape.empty() || shape.back() % per_block != 0)) {
    throw Error(context, concat("rows of shape ", shape_string(shape), " are not whole blocks of ", per_block,
                                " elements, as ", info.name, " needs"));
  }
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(elements / per_block, static_cast<std::int64_t>(info.block_bytes), &bytes)) {
    throw Error(context, "shape " + shape_string(shape) + " does not fit memory");
  }
  return static_cast<std::size_t>(bytes);
}

void refuse_tensor(std::string_view file, std::string_view name, const UnreadTensors& unread) {
  const auto found = unread.find(name);
  if (found == unread.end()) throw Error(file, "has no tensor " + in_quotes(name));
  throw Error(tensor_context(file, name),
              concat("is needed and of type ", in_quotes(found->second.type),
                     ", which ballast does not read: save the model with weights in BF16, F16 or F32"));
}

std::string tensor_context(std::string_view file, std::string_view name) {
  return std::string(file) + ": tensor " + in_quotes(name);
}

void refuse_overlaps(const TensorTable& tensors, std::span<const std::byte> file, std::string_view context) {
  std::vector<const TensorTable::value_type*> by_position;
  for (const auto& entry : tensors) {
    if (!entry.second.bytes.empty()) by_position.push_back(&entry);
  }
  std::ranges::sort(by_position, {}, [](const auto* entry) { return entry->second.bytes.data(); });
  for (std::size_t i = 1; i < by_position.size(); ++i) {
    const auto& [name, view] = *by_position[i - 1];
    const auto& [next_name, next_view] = *by_position[i];
    if (view.bytes.data() + view.bytes.size() > next_view.bytes.data()) {
      throw Error(context, concat("byte ", next_view.bytes.data() - file.data(), ": tensors ", in_quotes(name), " and ",
                                  in_quotes(next_name), " overlap"));
    }
  }
}

}  // namespace ballast::files
