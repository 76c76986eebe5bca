// The architectures that ballast knows: tensor names and a description each, nothing else.
#ifndef BALLAST_MODEL_ARCH_ARCHITECTURE_H_
#define BALLAST_MODEL_ARCH_ARCHITECTURE_H_

#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "ballast/spec.h"
#include "model/arch/config_reader.h"
#include "model/checkpoint/gguf.h"

namespace ballast::model {

/// What a tensor is for. Those from kAttentionNorm on exist once per block.
enum class Role {
  kEmbedding,
  kFinalNorm,
  kHead,
  kAttentionNorm,
  kQuery,
  kKey,
  kValue,
  kAttentionOutput,
  kMlpNorm,
  kGate,
  kUp,
  kDown,
};

/// Names of a tensor's module; "{}" stands for the block's index, ".weight" or ".bias" is appended.
struct TensorNames {
  Role role;
  std::string_view huggingface;
  std::string_view gguf;
};

struct Architecture {
  std::string_view model_type;         ///< of config.json
  std::string_view gguf_architecture;  ///< general.architecture of a GGUF; empty when there is none
  std::span<const TensorNames> names;

  /// Reads a config.json. Throws Error naming the field.
  ModelSpec (*describe)(const ConfigReader& config);

  /// The config.json that a GGUF's metadata amounts to.
  nlohmann::json (*config_from_gguf)(const GgufFile& file);

  /// Whether GGUF stores the rows of q and k with RoPE pairs side by side (2i, 2i+1) instead of (i, i + head_size/2).
  bool gguf_interleaves_rope = false;
};

/// Throws Error listing the known architectures.
const Architecture& architecture_for_model_type(std::string_view model_type, std::string_view place);
const Architecture& architecture_for_gguf(std::string_view name, std::string_view place);

/// "model.layers.3.self_attn.q_proj". Precondition: the architecture has the role.
std::string module_name(const Architecture& architecture, Role role, std::size_t layer);
std::string gguf_module_name(const Architecture& architecture, Role role, std::size_t layer);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_ARCH_ARCHITECTURE_H_
