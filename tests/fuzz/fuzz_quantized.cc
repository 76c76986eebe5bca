// Any bytes as a safetensors file with a quantized matrix "m": checked and packed for the kernels, or refused with an
// Error.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ballast/error.h"
#include "ballast/recipe.h"
#include "files/checkpoint.h"
#include "files/safetensors/safetensors_file.h"
#include "kernels/matrix/quantized_matrix.h"
#include "model/source/quantized_tensor.h"

namespace ballast {
namespace {

/// A checkpoint whose one file is in memory.
class MemoryCheckpoint : public files::Checkpoint {
 public:
  explicit MemoryCheckpoint(std::span<const std::byte> bytes)
      : Checkpoint("fuzz"), content_(files::parse_safetensors(bytes, "fuzz")), bytes_(bytes.size()) {
    for (const auto& [name, view] : content_.tensors) names_.push_back(name);
  }

  Kind kind() const override { return Kind::kHuggingFace; }
  const nlohmann::json& config() const override { return config_; }
  const std::vector<std::string>& names() const override { return names_; }
  bool contains(std::string_view name) const override { return content_.tensors.contains(std::string(name)); }
  TensorView tensor(std::string_view name) const override {
    const auto it = content_.tensors.find(std::string(name));
    if (it == content_.tensors.end()) throw Error("fuzz", "no tensor " + std::string(name));
    return it->second;
  }
  void release(std::string_view /*name*/) const override {}
  std::uint64_t file_bytes() const override { return bytes_; }

 private:
  files::SafetensorsContent content_;
  std::uint64_t bytes_;
  std::vector<std::string> names_;
  nlohmann::json config_ = nlohmann::json::object();
};

}  // namespace
}  // namespace ballast

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ballast;
  try {
    const MemoryCheckpoint checkpoint(std::as_bytes(std::span(data, size)));
    for (const char* format : {"int8-g32", "int4-g32-asym", "int5-g32-s8"}) {
      try {
        const model::StoredQuantizedTensor stored(checkpoint, "m", parse_format(format), 4, 64);
        const model::QuantizedTensor copy(stored.view());
        const kernels::QuantizedMatrix packed(copy.view());
      } catch (const Error&) {
      }
    }
  } catch (const Error&) {
  }
  return 0;
}
