// A checkpoint made from any bytes.
#ifndef BALLAST_TESTS_FUZZ_MEMORY_CHECKPOINT_H_
#define BALLAST_TESTS_FUZZ_MEMORY_CHECKPOINT_H_

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/error.h"
#include "files/checkpoint.h"
#include "files/safetensors/safetensors_file.h"

namespace ballast::test {

/// A checkpoint whose only file is in memory.
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

}  // namespace ballast::test

#endif  // BALLAST_TESTS_FUZZ_MEMORY_CHECKPOINT_H_
