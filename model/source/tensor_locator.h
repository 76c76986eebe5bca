// Finds what a model's files hold: the family, the spec, and the tensors of each role.
#ifndef BALLAST_MODEL_SOURCE_TENSOR_LOCATOR_H_
#define BALLAST_MODEL_SOURCE_TENSOR_LOCATOR_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ballast/spec.h"
#include "files/checkpoint.h"
#include "formats/codecs/codec.h"
#include "model/arch/architecture.h"
#include "model/source/lora_adapter.h"
#include "model/source/matrix_location.h"
#include "model/source/quantization_config.h"
#include "model/structure/block_structure.h"

namespace ballast::model {

/// Opens the files of a model, reads its configuration, and returns tensors by role after a check of their shapes. It
/// decodes no weights. Thread-safe.
class TensorLocator {
 public:
  /// Opens a model, or an adapter with the model that it changes. Throws Error if a tensor that the spec needs is
  /// missing or has another shape.
  explicit TensorLocator(const std::filesystem::path& path);

  /// Returns the adapter; null if there is none.
  const LoraAdapter* adapter() const { return adapter_.get(); }

  const ModelSpec& spec() const { return spec_; }
  const Architecture& architecture() const { return *architecture_; }
  const files::Checkpoint& checkpoint() const { return *checkpoint_; }
  const StorageLayout& layout() const { return layout_; }
  const nlohmann::json& config() const { return config_; }
  const std::optional<QuantizationConfig>& quantization() const { return quantization_; }
  const formats::CodecReader* codec() const { return codec_.get(); }  ///< null if no other program quantized the model
  const std::optional<std::vector<int>>& massive_tokens() const { return massive_tokens_; }
  const std::vector<int>& prefix_tokens() const { return prefix_tokens_; }
  std::size_t context_length() const { return spec_.context_length - prefix_tokens_.size(); }

  void lengthen_for(std::size_t tokens);

  /// Returns the same files with a spec in which the checkpoint's draft head is one more layer; nullopt if there is no
  /// such head. draft_head() throws Error if one of its tensors is missing or has another shape.
  std::optional<TensorLocator> find_draft_head() const;
  std::optional<TensorLocator> draft_head() const;

  /// Returns the Hugging Face name of a role's module as ballast writes it.
  std::string name(Role role, std::size_t layer, std::size_t expert) const;

  /// Returns "FILE: TENSOR", with which an Error begins.
  std::string context(const std::string& tensor) const;

  MatrixLocation stored(Role role, std::size_t layer, std::size_t expert) const;

  /// Return the names of the tensors of a vector, of a norm's bias, and of a norm's gains: none where the norm has no
  /// gain, several where each head's gains are a tensor.
  std::string vector_tensor(Role role, std::size_t layer) const;
  std::string norm_bias_tensor(Role norm, std::size_t layer) const;
  std::vector<std::string> gain_tensors(Role norm, std::size_t layer) const;

  /// Return a tensor. Throw Error if its shape differs from that of the spec.
  TensorView checked_tensor(const std::string& name, const Shape& shape) const;
  TensorView checked_vector(const std::string& name, Role role, std::size_t layer, std::size_t size) const;
  TensorView checked_matrix(const MatrixLocation& matrix, std::size_t cols) const;
  TensorView checked_scales(const MatrixLocation& matrix, std::size_t cols) const;  ///< of a matrix in MXFP4

  /// Returns a tensor of `shape`. If the matrix is one of several in a tensor, returns its part of that tensor.
  TensorView checked_slice(const MatrixLocation& matrix, const std::string& name, Shape shape) const;

  /// Returns the names of the tensors of a matrix, without its bias, after a check of their shapes.
  std::vector<std::string> checked_tensors(const MatrixLocation& matrix, std::size_t cols) const;

  /// Returns the codes of a matrix that another program quantized. Reads its scales. Precondition: matrix.foreign.
  formats::StoredCodes codec_codes(const MatrixLocation& matrix, std::size_t cols) const {
    return codec_->codes(*checkpoint_, matrix.module, matrix.stored_rows, cols);
  }

  /// Vectors and factors that are multiplied into matrices as these are decoded.
  std::span<const StoredVector> stored_vectors() const { return stored_vectors_; }
  Shape vector_shape(const StoredVector& vector, std::size_t layer) const;
  std::string vector_name(const StoredVector& vector, std::size_t layer) const;
  StoredFactor stored_factor(Role role) const;

  /// What an adapter adds to a matrix.
  struct Adapted {
    const std::string* module = nullptr;  ///< of the adapter; null: nothing
    std::size_t outputs = 0;              ///< of the module
    /// The module's row and column for each of the matrix; empty: as they are.
    std::vector<std::size_t> rows{}, cols{};
  };
  Adapted adapted(const LoraAdapter& adapter, Role role, std::size_t layer, std::size_t expert) const;

  /// Throws Error if an adapter changes something that is not in the model or has another shape.
  void check_adapter(const LoraAdapter& adapter) const;

  /// Returns the factors that the family's checkpoints leave out of a role's weights, and models that ballast wrote
  /// have in them.
  StoredFactor family_factor(Role role) const;

  /// Returns whether the adapter, or such a vector or factor, makes the weights of a role differ from the checkpoint's.
  bool changes_weights(Role role, std::size_t layer, std::size_t expert) const;

  std::uint64_t stored_bytes(Role role, std::size_t layer, std::size_t expert) const;
  bool is_rounded(Role role, std::size_t layer, std::size_t expert) const;

  void release(Part part, std::size_t layer) const;
  void release_block(std::size_t layer) const;
  void release_copied() const;
  void read_ahead(std::size_t layer, std::size_t expert) const;

 private:
  void read_cross_encoder();
  void read_start_token(const files::JsonReader& config);
  void read_quantization_config(const files::JsonReader& config);
  std::vector<int> read_end_tokens(const files::JsonReader& config) const;
  bool is_stored(Role role, std::size_t layer) const;
  void remove_head();
  void find_head(const files::JsonReader& config);
  void find_head_after_encoder(const files::JsonReader& config);
  void check_tensors() const;
  void check_block(std::size_t layer) const;
  void check_role(Role role, std::size_t layer, std::size_t expert = 0) const;
  bool has_draft_tensor() const;
  bool is_plain(Role role, std::size_t layer, std::size_t expert) const;
  bool all_is_plain() const;
  bool gain_is_in_matrices(Role norm) const;

  std::shared_ptr<const LoraAdapter> adapter_;
  std::shared_ptr<files::Checkpoint> checkpoint_;
  const Architecture* architecture_ = nullptr;
  StorageLayout layout_;
  nlohmann::json config_;
  ModelSpec spec_;
  std::optional<QuantizationConfig> quantization_;
  std::shared_ptr<const formats::CodecReader> codec_;
  std::optional<std::vector<int>> massive_tokens_;
  std::vector<int> prefix_tokens_;
  std::vector<StoredFactor> family_factors_;
  std::span<const StoredVector> stored_vectors_;
};

}  // namespace ballast::model

#endif  // BALLAST_MODEL_SOURCE_TENSOR_LOCATOR_H_
