// The architectures that ballast knows: tensor names and a description each, nothing else.
#ifndef BALLAST_MODEL_ARCH_ARCHITECTURE_H_
#define BALLAST_MODEL_ARCH_ARCHITECTURE_H_

#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/spec.h"
#include "files/gguf/gguf.h"
#include "files/gguf/gguf_writer.h"
#include "files/json_reader.h"
#include "model/arch/role.h"

namespace ballast::model {

/// Names of a role's tensors in a checkpoint. The first "{}" is replaced by the block's index, the second by the
/// expert's. ".weight" or ".bias" is appended for a linear and a norm ("weight" or "bias" after a final underscore),
/// nothing for roles that are a single vector. If a role has several lines, the first one that a checkpoint holds is
/// used.
struct TensorNames {
  Role role;
  std::string_view huggingface;
  std::string_view gguf;
};

/// Linears that a checkpoint keeps as one matrix. TensorNames of their roles are the names under which ballast writes
/// them.
struct FusedTensor {
  /// The rows are cut into this many runs; in each, every part has its share of its rows, in the order of `parts`.
  enum class Runs {
    kOne,
    kHeads,
    kKeyValueHeads,
    kDeltaKeyHeads,
    kRows,  ///< rows of the parts in turn, one of each
  };

  std::string_view huggingface;
  std::string_view gguf;
  std::span<const Role> parts;
  Runs runs = Runs::kOne;
};

/// A factor by which a linear of the forward pass differs from the checkpoint's.
struct StoredFactor {
  Role role{};
  double weights = 1.0;  ///< multiplies the stored matrix
  double bias = 1.0;     ///< multiplies the stored bias
};

/// A vector of a Hugging Face checkpoint that multiplies the inputs or outputs of linears of a role, and is multiplied
/// into their matrices while they are read. If all readers of a norm have one, the norm has no gain.
struct StoredVector {
  enum class Multiplies {
    kInputs,         ///< one value per input channel
    kExpertOutputs,  ///< one value per expert, for all outputs of that expert
  };
  Role role{};
  std::string_view huggingface;  ///< the tensor's name; "{}" is replaced by the block's index
  Multiplies multiplies = Multiplies::kInputs;
};

struct Architecture {
  std::string_view model_type = {};         ///< in config.json
  std::string_view gguf_architecture = {};  ///< general.architecture of a GGUF; empty: the family has none
  std::span<const TensorNames> names = {};

  /// The names in the two layers of each block of a decoder with an encoder (EncoderSpec): "{}" is replaced by the
  /// block's index. `names` is for the encoder's layers and for what is outside of blocks.
  std::span<const TensorNames> decoder_names = {};
  std::span<const TensorNames> cross_names = {};

  std::span<const FusedTensor> fused = {};

  /// Reads a config.json. Throws Error naming the field.
  ModelSpec (*describe)(const files::JsonReader& config) = nullptr;

  /// Factors on a linear's input and output, multiplied into the matrices while they are read; null: none. Throws Error
  /// naming the field.
  std::vector<StoredFactor> (*stored_factors)(const files::JsonReader& config) = nullptr;

  /// Returns vectors that are multiplied into matrices as well; null: none.
  std::span<const StoredVector> (*stored_vectors)(const ModelSpec& spec) = nullptr;

  /// Returns the config.json that corresponds to a GGUF's metadata; null if the family has no GGUFs. Its `model_type`
  /// may be that of another family whose GGUFs have the same name.
  nlohmann::json (*config_from_gguf)(const files::GgufFile& file) = nullptr;

  /// Returns the metadata of a GGUF of the model; null if none can be written. Throws Error naming a feature that it
  /// cannot express.
  std::vector<files::GgufField> (*gguf_fields)(const ModelSpec& spec) = nullptr;

  /// The prefix of tensor names, and prefixes that a checkpoint may have instead; no prefix is always accepted.
  std::string_view prefix = {};
  std::span<const std::string_view> other_prefixes = {};

  /// The name of a draft head's block in a Hugging Face checkpoint; empty: it is named like a block after the last one.
  std::string_view draft_block = {};

  /// Whether the blocks' matrices are stored [inputs, outputs] in a Hugging Face checkpoint.
  bool transposed_linears = false;

  /// Whether a Hugging Face checkpoint has a layer's experts in one tensor, [experts, inputs, outputs] or in MXFP4.
  bool transposed_experts = false;

  /// Whether rows of q and k are stored with adjacent RoPE pairs (2i, 2i+1) instead of (i, i + rotary_size / 2). In a
  /// Hugging Face checkpoint those of latent attention always are.
  bool huggingface_interleaves_rope = false;
  bool gguf_interleaves_rope = false;

  /// Whether a GGUF has the value heads of gated delta nets in another order: the first value head of each key head,
  /// then the second of each, and so on.
  bool gguf_tiles_value_heads = false;
};

/// Return the architecture with this name in a config.json or in a GGUF. Throw Error listing the known architectures.
const Architecture& architecture_for_model_type(std::string_view model_type, std::string_view context);
const Architecture& architecture_for_gguf(std::string_view name, std::string_view context);

/// Returns the families whose models can be written as GGUFs: "llama, mistral".
std::string gguf_families();

/// Returns an architecture's names for a layer, and changes the layer's index to that which they contain.
/// `encoder_layers`: EncoderSpec::layers, 0 without an encoder.
std::span<const TensorNames> names_of_layer(const Architecture& architecture, std::size_t encoder_layers,
                                            std::size_t& layer);

/// Returns the first of a role's names among names_of_layer: "model.layers.3.self_attn.q_proj". Precondition: the
/// architecture has the role.
std::string module_name(const Architecture& architecture, Role role, std::size_t layer = 0, std::size_t expert = 0,
                        std::size_t encoder_layers = 0);

/// Returns all names that a role may have in a checkpoint of either kind, the most likely first.
std::vector<std::string> stored_names(const Architecture& architecture, Role role, bool gguf, std::size_t layer,
                                      std::size_t expert, std::size_t encoder_layers = 0);

/// Returns a pattern of TensorNames with its indices filled in.
std::string fill_in(std::string_view pattern, std::size_t layer, std::size_t expert);

/// Returns the number of runs that the rows of a fused tensor are cut into. `first_rows`: rows of its first part.
std::size_t run_count(const LayerSpec& layer, FusedTensor::Runs runs, std::size_t first_rows);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_ARCH_ARCHITECTURE_H_
