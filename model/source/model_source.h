// A model's files together with their meaning: the architecture, the spec, and tensors by role.
#ifndef BALLAST_MODEL_SOURCE_MODEL_SOURCE_H_
#define BALLAST_MODEL_SOURCE_MODEL_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ballast/activation_type.h"
#include "ballast/compute_options.h"
#include "ballast/spec.h"
#include "files/checkpoint.h"
#include "model/arch/architecture.h"
#include "model/block/weights.h"
#include "model/source/linear_loader.h"
#include "model/source/quantization_config.h"
#include "model/source/tensor_decoder.h"
#include "model/source/tensor_locator.h"
#include "model/structure/assemble_block.h"

namespace ballast::model {

/// Open files of one model: locates tensors (TensorLocator), decodes them to floats (TensorDecoder) and loads linears
/// for kernels (LinearLoader). Loading checks shapes against the spec and that values are finite. Thread-safe.
class ModelSource {
 public:
  /// Throws Error.
  explicit ModelSource(const std::filesystem::path& path) : ModelSource(TensorLocator(path)) {}
  explicit ModelSource(TensorLocator locator)
      : locator_(std::move(locator)), decoder_(locator_), loader_(locator_, decoder_) {}
  ModelSource(const ModelSource&) = delete;
  ModelSource& operator=(const ModelSource&) = delete;

  /// Returns whether the checkpoint has a draft head, which may be incomplete.
  bool has_draft_head() const { return locator_.find_draft_head().has_value(); }

  /// Returns a source of the checkpoint's draft head (multi-token prediction): its block is the last layer of the spec,
  /// the embedding and the head are the model's. Null if there is no such head. Loads linears as this source does.
  /// Throws Error if one of the head's tensors is missing or has another shape.
  std::unique_ptr<const ModelSource> draft_head() const;

  const ModelSpec& spec() const { return locator_.spec(); }
  const Architecture& architecture() const { return locator_.architecture(); }
  const files::Checkpoint& checkpoint() const { return locator_.checkpoint(); }

  /// Returns the folders or files that are read: the model, and its adapter if there is one.
  std::vector<std::filesystem::path> paths() const {
    std::vector<std::filesystem::path> paths = {checkpoint().path()};
    if (locator_.adapter() != nullptr) paths.push_back(locator_.adapter()->path());
    return paths;
  }

  /// Returns the Hugging Face configuration, translated when the source is a GGUF.
  const nlohmann::json& config() const { return locator_.config(); }
  const std::optional<QuantizationConfig>& quantization() const { return locator_.quantization(); }

  /// Returns the modules that another program quantized, by their names in the checkpoint. Reads scales. Throws Error.
  std::map<std::string, ForeignModule> foreign_modules() const { return loader_.foreign_modules(); }

  /// Returns the ids of tokens that calibration found to carry massive activations, -1 for the first token of a text,
  /// or nothing when the model was never calibrated.
  const std::optional<std::vector<int>>& massive_tokens() const { return locator_.massive_tokens(); }

  /// Returns the tokens that are in the cache before every sequence; mostly none.
  const std::vector<int>& prefix_tokens() const { return locator_.prefix_tokens(); }

  /// Returns how many tokens fit into the context after the prefix.
  std::size_t context_length() const { return locator_.context_length(); }

  /// Switches to the longer context, with its rotation, where `tokens` do not fit the model's own context and there is
  /// a longer one. Must be called before a model is made of this source.
  void lengthen_for(std::size_t tokens) { locator_.lengthen_for(tokens); }

  /// Sets how linears in floats are multiplied. Must be called before a model is made of this source. Throws Error as
  /// check_compute_options does.
  void set_compute(const ComputeOptions& options) { loader_.set_compute(options); }
  const ComputeOptions& compute() const { return loader_.compute(); }

  /// Sets how the inputs of matrices in GGUF blocks, or in another program's format, are quantized: with an integer
  /// type, linears keep the codes if kernels can multiply them; with kFloat, the default, all such linears are decoded.
  /// Must be called before a model is made of this source.
  void set_code_activations(ActivationType type) { loader_.set_code_activations(type); }
  ActivationType code_activations() const { return loader_.code_activations(); }

  /// Returns the Hugging Face name of a role's module as ballast writes it: "model.layers.3.mlp.up_proj".
  std::string name(Role role, std::size_t layer = 0, std::size_t expert = 0) const {
    return locator_.name(role, layer, expert);
  }

  /// Returns the bytes that a role's matrix, norm (with its bias) or vector takes in this checkpoint.
  std::uint64_t stored_bytes(Role role, std::size_t layer = 0, std::size_t expert = 0) const {
    return locator_.stored_bytes(role, layer, expert);
  }

  /// Return weights that are ready to run: views of the map where possible, owned copies otherwise, repacked when
  /// quantized. vector() takes a role that is_vector().
  Linear linear(Role role, std::size_t layer = 0, std::size_t expert = 0) const {
    return loader_.linear(role, layer, expert);
  }
  Norm norm(Role role, std::size_t layer = 0) const { return decoder_.norm(role, layer); }
  std::vector<float> vector(Role role, std::size_t layer = 0) const { return decoder_.vector(role, layer); }
  BlockParts parts(std::size_t layer = 0) const;
  BlockWeights block(std::size_t layer) const;

  /// Returns a matrix that ballast quantized, as it is stored: whole, or its ranges of rows; empty for any other
  /// matrix. Valid as long as this.
  std::vector<std::unique_ptr<const formats::StoredQuantizedTensor>> quantized_ranges(Role role, std::size_t layer = 0,
                                                                                      std::size_t expert = 0) const {
    return loader_.quantized_ranges(role, layer, expert);
  }

  /// Returns whether another program rounded a matrix. Precondition: ballast did not.
  bool is_rounded(Role role, std::size_t layer = 0, std::size_t expert = 0) const {
    return locator_.is_rounded(role, layer, expert);
  }

  /// Returns a matrix in the codes that another program rounded it to, as kernels multiply them; empty when it is plain
  /// or kernels cannot multiply its codes or their order. Valid as long as this. Throws Error.
  std::optional<formats::StoredCodes> stored_codes(Role role, std::size_t layer = 0, std::size_t expert = 0) const {
    return loader_.stored_codes(role, layer, expert);
  }

  /// Returns the values of a matrix that ballast did not quantize, in F32.
  FloatWeights float_weights(Role role, std::size_t layer = 0, std::size_t expert = 0) const {
    return decoder_.float_weights(role, layer, expert);
  }

  /// Returns `count` rows, from `first` on, of a matrix outside of the blocks that ballast did not quantize:
  /// [count][cols].
  std::vector<float> float_rows(Role role, std::size_t first, std::size_t count) const {
    return decoder_.float_rows(role, first, count);
  }

  /// Throws Error if an adapter of the original model changes something that this one does not have, or that has
  /// another shape.
  void check_adapter(const LoraAdapter& adapter) const { locator_.check_adapter(adapter); }

  /// Returns what an adapter adds to a matrix of the original model; nullopt: nothing.
  std::optional<LoraProduct> lora_product(const LoraAdapter& adapter, Role role, std::size_t layer,
                                          std::size_t expert) const {
    return decoder_.lora_product(adapter, role, layer, expert);
  }

  bool written_by_ballast() const { return locator_.layout().written_by_ballast; }

  /// Returns a linear's bias; empty when it has none.
  std::vector<float> bias(Role role, std::size_t layer = 0, std::size_t expert = 0) const {
    return decoder_.bias(role, layer, expert);
  }

  /// Advises the operating system that the pages of a matrix's tensor, or of all tensors of a block, are not needed for
  /// now.
  void release(Part part, std::size_t layer) const { locator_.release(part, layer); }
  void release_block(std::size_t layer) const { locator_.release_block(layer); }

  /// Releases the pages of all blocks of codes in a GGUF, of which a loaded model has copies: reading one tensor also
  /// maps the ends of its neighbours.
  void release_copied() const { locator_.release_copied(); }

  /// Advises the operating system to read the matrices of an expert while others are in use.
  void read_ahead(std::size_t layer, std::size_t expert) const { locator_.read_ahead(layer, expert); }

 private:
  TensorLocator locator_;
  TensorDecoder decoder_;
  LinearLoader loader_;
};

}  // namespace ballast::model

#endif  // BALLAST_MODEL_SOURCE_MODEL_SOURCE_H_
