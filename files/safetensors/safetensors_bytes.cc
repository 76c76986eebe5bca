#include "files/safetensors/safetensors_bytes.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>

namespace ballast::files {

std::string safetensors_bytes(const std::map<std::string, TensorView>& tensors,
                              const std::map<std::string, std::string>& metadata) {
  using nlohmann::json;
  constexpr std::size_t kAlignment = 8;  // of the data
  json header = {{"__metadata__", metadata}};
  std::size_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    header[name] = {{"dtype", dtype_info(tensor.dtype).name},
                    {"shape", tensor.shape},
                    {"data_offsets", {offset, offset + tensor.bytes.size()}}};
    offset += tensor.bytes.size();
  }
  std::string text = header.dump(-1, ' ', false, json::error_handler_t::replace);
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  const std::uint64_t length = text.size();
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  file += text;
  for (const auto& [name, tensor] : tensors) {
    file.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  }
  return file;
}

}  // namespace ballast::files
