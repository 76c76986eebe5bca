// A model's files together with what they mean: the architecture, the spec, and tensors by role.
#ifndef BALLAST_MODEL_MODEL_SOURCE_H_
#define BALLAST_MODEL_MODEL_SOURCE_H_

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ballast/recipe.h"
#include "ballast/spec.h"
#include "model/arch/architecture.h"
#include "model/checkpoint/checkpoint.h"
#include "model/weights.h"

namespace ballast::model {

/// How a directory that ballast wrote is quantized: config.json's `quantization_config`.
struct QuantizationConfig {
  bool int8_activations = false;
  bool activation_groups = false;
  std::map<std::string, WeightFormat> tensors;  ///< by module name; those that are not listed are plain
};

/// One module's weights in F32, for passes and exports.
struct FloatWeights {
  std::size_t rows = 0;
  std::size_t cols = 0;
  std::vector<float> values;  ///< [rows][cols]
};

/// Open files of one model. Loading checks shapes against the spec and that values are finite. Thread-safe.
class ModelSource {
 public:
  /// Throws Error.
  explicit ModelSource(const std::filesystem::path& path);

  const ModelSpec& spec() const { return spec_; }
  const Architecture& architecture() const { return *architecture_; }
  const Checkpoint& checkpoint() const { return *checkpoint_; }

  /// The Hugging Face configuration, translated when the source is a GGUF.
  const nlohmann::json& config() const { return config_; }
  const std::optional<QuantizationConfig>& quantization() const { return quantization_; }

  /// Hugging Face name of a role's module, whatever the source: "model.layers.3.mlp.up_proj".
  std::string name(Role role, std::size_t layer = 0) const;

  /// Name of the module's weight in this checkpoint, for messages and sizes.
  std::string stored_name(Role role, std::size_t layer = 0) const;

  /// Whether a linear of this role has a bias.
  bool has_bias(Role role) const;

  /// [outputs, inputs] that the spec gives a role's matrix.
  std::pair<std::size_t, std::size_t> matrix_shape(Role role) const;

  /// Ready to run: views of the map where possible, owned copies otherwise, repacked when quantized.
  Linear linear(Role role, std::size_t layer = 0) const;
  std::vector<float> vector(Role role, std::size_t layer = 0) const;  ///< a norm's gain
  BlockWeights block(std::size_t layer) const;

  /// A plain matrix in F32. Precondition: the model is not quantized by ballast.
  FloatWeights float_weights(Role role, std::size_t layer = 0) const;
  std::vector<float> bias(Role role, std::size_t layer = 0) const;  ///< empty when the role has none

  /// Tells the kernel that a block's pages are not needed for now.
  void release_block(std::size_t layer) const;

 private:
  void check_extent() const;
  TensorView checked_tensor(const std::string& name, const Shape& shape) const;
  std::vector<float> floats(const std::string& name, const Shape& shape) const;
  void undo_rope_interleaving(Role role, FloatWeights& weights) const;
  bool interleaved(Role role) const;
  std::string place(const std::string& tensor) const;

  std::unique_ptr<Checkpoint> checkpoint_;
  const Architecture* architecture_ = nullptr;
  nlohmann::json config_;
  ModelSpec spec_;
  std::optional<QuantizationConfig> quantization_;
};

/// The roles of one block's linears and of its norms, in the order of the forward pass.
std::span<const Role> block_linears();
std::span<const Role> block_norms();

}  // namespace ballast::model

#endif  // BALLAST_MODEL_MODEL_SOURCE_H_
