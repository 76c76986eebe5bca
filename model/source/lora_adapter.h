// Adapters as PEFT or llama.cpp write them: products of two narrow matrices that are added to some of a model's (LoRA,
// arXiv:2106.09685).
#ifndef BALLAST_MODEL_SOURCE_LORA_ADAPTER_H_
#define BALLAST_MODEL_SOURCE_LORA_ADAPTER_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ballast::model {

/// What an adapter adds to a matrix [outputs, inputs]: scale * up * down; and to its output, a bias.
struct LoraProduct {
  std::size_t outputs = 0;
  std::size_t inputs = 0;
  std::size_t rank = 0;
  float scale = 1;
  std::vector<float> up;    ///< [outputs][rank]
  std::vector<float> down;  ///< [rank][inputs]
  std::vector<float> bias;  ///< [outputs]: of a model whose inputs were shifted (LinearFolds); else empty

  /// Returns the product, [outputs][inputs].
  std::vector<float> values() const;
};

/// The files of a folder with adapter_config.json and adapter_model.safetensors, or a GGUF. Immutable.
class LoraAdapter {
 public:
  /// Throws Error if the files are wrong, or have something other than LoRA's factors.
  explicit LoraAdapter(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }

  /// Returns whether the names of modules, and the order of their rows, are a GGUF's.
  bool is_gguf() const { return is_gguf_; }

  /// Returns a hash of the content.
  std::uint64_t identity() const { return identity_; }

  /// Returns the folder of the model that is adapted: the one that the configuration names, or the folder around this
  /// one. Throws Error if neither has a config.json. Precondition: not
  /// is_gguf().
  std::filesystem::path base() const;

  /// Returns the name of the adapter's module that is this one, up to words before either name; null if there is none.
  const std::string* find(std::string_view module) const;
  const LoraProduct& product(const std::string& module) const { return products_.at(module); }

  /// Throws Error naming the first module that is neither among those of the model that are `found`, nor has a tensor
  /// in the checkpoint that the model does not need.
  void check_modules(std::span<const std::string> found, std::span<const std::string> tensors) const;

 private:
  void read_folder();
  void read_gguf();
  std::filesystem::path tensor_file() const;

  std::filesystem::path path_;
  bool is_gguf_ = false;
  std::uint64_t identity_ = 0;
  std::string named_base_;
  std::map<std::string, LoraProduct> products_;
};

/// Returns the adapter in a folder; null if it has none, or has a model of its own.
std::unique_ptr<const LoraAdapter> read_adapter(const std::filesystem::path& folder);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_SOURCE_LORA_ADAPTER_H_
