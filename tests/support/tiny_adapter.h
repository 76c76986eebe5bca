// Adapters as PEFT writes them, small enough for tests.
#ifndef BALLAST_TESTS_SUPPORT_TINY_ADAPTER_H_
#define BALLAST_TESTS_SUPPORT_TINY_ADAPTER_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "ballast/tensor.h"
#include "file_bytes.h"
#include "tiny_model.h"

namespace ballast::test {

/// An adapter of a model, whose files a test can change.
struct TinyAdapter {
  static constexpr std::size_t kRank = 3;

  nlohmann::json config = {
      {"peft_type", "LORA"}, {"r", kRank}, {"lora_alpha", 6}, {"base_model_name_or_path", "somewhere"}};
  std::map<std::string, Tensor> tensors;

  /// Adds the factors of a module with `outputs` x `inputs` weights.
  void add(const std::string& module, std::size_t outputs, std::size_t inputs) {
    add_tensor("base_model.model." + module + ".lora_A.weight", kRank, inputs);
    add_tensor("base_model.model." + module + ".lora_B.weight", outputs, kRank);
  }
  void add_tensor(const std::string& name, std::size_t rows, std::size_t cols) {
    Tensor& tensor = tensors[name];
    tensor.values.clear();
    tensor.shape = {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(cols)};
    for (std::size_t i = 0; i < rows * cols; ++i) {
      tensor.values.push_back(static_cast<float>((i * 31 + name.size() * 7) % 17) / 16.0F - 0.5F);
    }
  }

  std::filesystem::path write(const std::filesystem::path& directory) const {
    std::filesystem::create_directories(directory);
    write_file(directory / "adapter_config.json", config.dump());
    write_file(directory / "adapter_model.safetensors", float_tensors_bytes(tensors));
    return directory;
  }
};

/// Returns an adapter of all matrices in the blocks of a model with attention and a gated MLP, and of its head.
inline TinyAdapter random_adapter(const TinyModel& model, unsigned seed) {
  TinyAdapter adapter;
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, 0.2F);
  for (const auto& [name, tensor] : model.tensors) {
    constexpr std::string_view kWeight = "_proj.weight";
    if (!name.ends_with(kWeight) && name != "lm_head.weight") continue;
    adapter.add(name.substr(0, name.size() - std::string_view(".weight").size()),
                static_cast<std::size_t>(tensor.shape[0]), static_cast<std::size_t>(tensor.shape[1]));
  }
  for (auto& [name, tensor] : adapter.tensors) {
    for (float& value : tensor.values) value = normal(random);
  }
  return adapter;
}

}  // namespace ballast::test

#endif  // BALLAST_TESTS_SUPPORT_TINY_ADAPTER_H_
