// How checkpoints of other programs hold matrices of integers.
#ifndef BALLAST_QUANT_WRITE_HUGGINGFACE_MATRIX_LAYOUT_H_
#define BALLAST_QUANT_WRITE_HUGGINGFACE_MATRIX_LAYOUT_H_

#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "ballast/recipe.h"
#include "ballast/tensor.h"
#include "files/safetensors/safetensors_writer.h"
#include "quant/rounding/rounded_matrix.h"
#include "quant/write/converted_module.h"

namespace ballast::quant {

/// A tensor with what it holds.
struct StoredPart {
  files::TensorPlan plan;
  std::vector<std::byte> bytes;
};

/// The layout of one program. Thread-safe.
class MatrixLayout {
 public:
  virtual ~MatrixLayout() = default;

  /// "compressed-tensors", for messages.
  virtual std::string name() const = 0;

  /// Formats that a matrix may be given; empty: all have the recipe's.
  virtual std::vector<WeightFormat> candidates() const = 0;

  /// What a recipe's format of integers becomes. `int8_activations`: so does what the matrix reads. Throws Error where
  /// the two do not go together here.
  virtual WeightFormat fitting(const WeightFormat& format, bool int8_activations) const = 0;

  /// What a format becomes that somebody names for a matrix; not of floats. Throws Error as fitting() does.
  virtual WeightFormat named(const WeightFormat& format, bool /*int8_activations*/) const { return format; }

  /// Whether matrices that read the same input must have one format: who reads the files fuses them.
  virtual bool ties_formats() const { return true; }

  /// Whether a head that is no embedding is quantized, too; whether an embedding is.
  virtual bool quantizes_head() const = 0;
  virtual bool quantizes_embedding() const { return false; }

  virtual bool holds(const ModulePlan& module) const = 0;

  /// Throws Error where configuration() cannot say modules that holds() says each.
  virtual void check_together(std::span<const ModulePlan> /*model*/) const {}

  /// The tensors of a matrix but for its bias; `scale_type` is that of scales.
  virtual std::vector<files::TensorPlan> tensors(const ModulePlan& module, DType scale_type) const = 0;

  /// The same with what they hold.
  std::vector<StoredPart> parts(const ModulePlan& module, const RoundedMatrix& matrix, DType scale_type) const;

  /// Where a config.json says what configuration() returns.
  virtual std::vector<std::string> configuration_keys() const { return {"quantization_config"}; }

  /// What is said of a model with these modules, which check_together() let pass.
  virtual nlohmann::json configuration(std::span<const ModulePlan> model, bool int8_activations) const = 0;

 private:
  /// Of each of tensors().
  virtual std::vector<std::vector<std::byte>> contents(const ModulePlan& module, const RoundedMatrix& matrix,
                                                       DType scale_type) const = 0;
};

std::unique_ptr<MatrixLayout> make_compressed_tensors_layout();
std::unique_ptr<MatrixLayout> make_mlx_layout();
std::unique_ptr<MatrixLayout> make_awq_layout();
std::unique_ptr<MatrixLayout> make_gptq_layout();

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_WRITE_HUGGINGFACE_MATRIX_LAYOUT_H_
