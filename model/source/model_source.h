// A model's files together with what they mean: the architecture, the spec, and tensors by role.
#ifndef BALLAST_MODEL_SOURCE_MODEL_SOURCE_H_
#define BALLAST_MODEL_SOURCE_MODEL_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ballast/recipe.h"
#include "ballast/spec.h"
#include "files/checkpoint.h"
#include "formats/codecs/codec.h"
#include "formats/quantized_tensor.h"
#include "model/arch/architecture.h"
#include "model/block_parts.h"
#include "model/source/quantization_config.h"
#include "model/source/stored_matrix.h"
#include "model/weights.h"

namespace ballast::model {

/// One module's weights in F32, for passes and exports.
struct FloatWeights {
  std::size_t rows = 0;
  std::size_t cols = 0;
  std::vector<float> values;  ///< [rows][cols]
};

/// Rows of a matrix as codes.
struct StoredCodes {
  std::string type;  ///< of what is stored: "Q4_K", "GPTQ int4-g128"
  kernels::CodeLayout form;
  bool exact = true;  ///< else values are rounded to the form: it holds what no form holds exactly

  /// Writes a row; returns whether what it holds is finite. May be called from several threads.
  std::function<bool(std::size_t row, kernels::QuantizedRow& dst)> read;
  std::function<void(std::size_t row, float* dst)> decode{};  ///< the values themselves; null where codes are exact
};

/// One module's matrix that another program quantized.
struct ForeignModule {
  formats::CodecTensors tensors;
  std::uint64_t weights = 0;
  bool keeps_codes = false;  ///< else it is decoded to floats, where inputs are integers, too
};

/// Open files of one model. Loading checks shapes against the spec and that values are finite. Thread-safe.
class ModelSource {
 public:
  /// Throws Error.
  explicit ModelSource(const std::filesystem::path& path);

  const ModelSpec& spec() const { return spec_; }
  const Architecture& architecture() const { return *architecture_; }
  const files::Checkpoint& checkpoint() const { return *checkpoint_; }

  /// The Hugging Face configuration, translated when the source is a GGUF.
  const nlohmann::json& config() const { return config_; }
  const std::optional<QuantizationConfig>& quantization() const { return quantization_; }

  /// Modules that another program than ballast quantized, by their names in the checkpoint. Reads scales. Throws Error.
  std::map<std::string, ForeignModule> foreign_modules() const;

  /// Ids of tokens that calibration found to carry massive activations, -1 for whatever stands first; absent when the
  /// model was never calibrated.
  const std::optional<std::vector<int>>& massive_tokens() const { return massive_tokens_; }

  /// Tokens that stand in front of every sequence, in the cache; mostly none.
  const std::vector<int>& prefix_tokens() const { return prefix_tokens_; }

  /// Tokens that fit, beside those of the prefix.
  std::size_t context_length() const { return spec_.context_length - prefix_tokens_.size(); }

  /// Takes the longer context, with its rotation, where `tokens` do not fit the model's own and there is a longer one.
  /// Before a model is made of this.
  void lengthen_for(std::size_t tokens);

  /// Sets how linears in floats are multiplied. To be called before a model is made of this. Throws Error as
  /// check_compute_options does.
  void set_compute(const ComputeOptions& options);
  const ComputeOptions& compute() const { return compute_; }

  /// Sets what the inputs of matrices in a GGUF's blocks, or of another program's quantization, become: with integers,
  /// linears keep the codes where kernels multiply them; with kFloat, as at the start, all such linears are decoded. To
  /// be called before a model is made of this.
  void set_code_activations(ActivationType type) { code_activations_ = type; }

  /// Hugging Face name of a role's module as ballast writes it: "model.layers.3.mlp.up_proj".
  std::string name(Role role, std::size_t layer = 0, std::size_t expert = 0) const;

  /// Bytes that a role's matrix, norm (with its bias) or vector takes in this checkpoint.
  std::uint64_t stored_bytes(Role role, std::size_t layer = 0, std::size_t expert = 0) const;

  /// Ready to run: views of the map where possible, owned copies otherwise, repacked when quantized.
  Linear linear(Role role, std::size_t layer = 0, std::size_t expert = 0) const;
  Norm norm(Role role, std::size_t layer = 0) const;
  std::vector<float> vector(Role role, std::size_t layer = 0) const;  ///< one of is_vector
  BlockParts parts(std::size_t layer = 0) const;
  BlockWeights block(std::size_t layer) const;

  /// A matrix of integers as it is stored; null when it is plain. Valid as long as this.
  std::unique_ptr<const formats::StoredQuantizedTensor> quantized_tensor(Role role, std::size_t layer = 0,
                                                                         std::size_t expert = 0) const;

  /// Whether another program rounded a matrix. Precondition: ballast did not.
  bool is_rounded(Role role, std::size_t layer = 0, std::size_t expert = 0) const;

  /// A matrix in the codes that another program rounded it to, as kernels multiply them; empty when it is plain, or has
  /// codes or an order that they do not. Valid as long as this. Throws Error.
  std::optional<StoredCodes> stored_codes(Role role, std::size_t layer = 0, std::size_t expert = 0) const;

  /// A plain matrix, or one that another program quantized, in F32. Precondition: the model is not quantized by
  /// ballast.
  FloatWeights float_weights(Role role, std::size_t layer = 0, std::size_t expert = 0) const;
  std::vector<float> bias(Role role, std::size_t layer = 0, std::size_t expert = 0) const;  ///< empty when it has none

  /// Tells the kernel that the pages of the tensor that holds a matrix, or of all of a block's, are not needed for now.
  void release(Part part, std::size_t layer) const;
  void release_block(std::size_t layer) const;

  /// The same of all blocks of codes in a GGUF, of which a loaded model has copies: reading one tensor maps the ends of
  /// its neighbours, too.
  void release_copied() const;

  /// Tells the kernel that the matrices of an expert are needed soon: they are read while others are worked on.
  void read_ahead(std::size_t layer, std::size_t expert) const;

 private:
  void check_tensors() const;
  void check_role(Role role, std::size_t layer, std::size_t expert = 0) const;
  StoredMatrix stored(Role role, std::size_t layer, std::size_t expert) const;
  TensorView checked_tensor(const std::string& name, const Shape& shape) const;
  TensorView checked_vector(const std::string& name, Role role, std::size_t layer, std::size_t size) const;
  std::vector<std::string> gain_tensors(Role norm, std::size_t layer) const;
  std::vector<float> gain(Role norm, std::size_t layer) const;
  TensorView checked_matrix(const StoredMatrix& matrix, std::size_t cols) const;

  TensorView checked_scales(const StoredMatrix& matrix, std::size_t cols) const;

  /// The same for a tensor of `shape`, or of the matrix's part in a tensor of many such: its scales, its bias.
  TensorView checked_slice(const StoredMatrix& matrix, const std::string& name, Shape shape) const;
  std::vector<float> floats(const std::string& name, const Shape& shape) const;
  std::optional<Linear> quantized_linear(Role role, std::size_t layer, std::size_t expert) const;
  std::optional<Linear> linear_of_codes(Role role, std::size_t layer, std::size_t expert) const;
  std::optional<StoredCodes> block_codes(const StoredMatrix& matrix, std::size_t rows, std::size_t cols) const;
  std::optional<StoredCodes> foreign_codes(const StoredMatrix& matrix, std::size_t rows, std::size_t cols) const;
  std::optional<kernels::FloatMatrix> mapped_floats(const StoredMatrix& matrix, Role role, std::size_t layer) const;

  /// Names of the tensors of a matrix, without its bias, after a check of what they are.
  std::vector<std::string> checked_tensors(const StoredMatrix& matrix, std::size_t cols) const;
  void add_foreign(Role role, std::size_t layer, std::size_t expert,
                   std::map<std::string, ForeignModule>& modules) const;
  formats::CodecMatrix foreign_matrix(const StoredMatrix& matrix, std::size_t cols) const;
  void decode_foreign(const StoredMatrix& matrix, std::size_t cols, float* dst) const;
  void read_quantization_config(const files::JsonReader& config);
  bool is_plain(Role role, std::size_t layer, std::size_t expert) const;

  /// All matrices of the model are.
  bool all_is_plain() const;
  void find_head(const files::JsonReader& config);
  std::vector<int> read_end_tokens(const files::JsonReader& config) const;
  std::string context(const std::string& tensor) const;
  StoredFactor stored_factor(Role role) const;

  bool gain_is_in_matrices(Role norm) const;

  /// Whether a linear of the forward pass is another than the checkpoint's.
  bool changes_weights(Role role) const;
  bool can_keep_codes(const StoredMatrix& matrix, Role role) const;
  Shape vector_shape(const StoredVector& vector, std::size_t layer) const;
  std::string vector_name(const StoredVector& vector, std::size_t layer) const;
  void multiply_by_vectors(Role role, std::size_t layer, std::size_t expert, FloatWeights& weights) const;

  std::unique_ptr<files::Checkpoint> checkpoint_;
  const Architecture* architecture_ = nullptr;
  StorageLayout layout_;
  nlohmann::json config_;
  ModelSpec spec_;
  std::optional<QuantizationConfig> quantization_;
  std::unique_ptr<const formats::CodecReader> foreign_;
  ComputeOptions compute_;
  ActivationType code_activations_ = ActivationType::kFloat;  ///< see set_code_activations
  std::optional<std::vector<int>> massive_tokens_;
  std::vector<int> prefix_tokens_;
  std::vector<StoredFactor> stored_factors_;
  std::span<const StoredVector> stored_vectors_;
};

}  // namespace ballast::model

#endif  // BALLAST_MODEL_SOURCE_MODEL_SOURCE_H_
