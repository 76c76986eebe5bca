// The modules of a converted model: their plans, and their values for a writer.
#ifndef BALLAST_QUANT_WRITE_CONVERTED_MODULE_H_
#define BALLAST_QUANT_WRITE_CONVERTED_MODULE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ballast/recipe.h"
#include "ballast/tensor.h"
#include "formats/code_matrix.h"
#include "quant/block/module_id.h"
#include "quant/block/working_block.h"

namespace ballast::quant {

/// A matrix, norm or vector of a model. It depends on shapes alone, except `half_type` and whether a matrix in 16-bit
/// floats is F16 or BF16, which take the same bytes: a plan without values has F16.
struct ModulePlan {
  ModuleId id;
  std::string name;                                       ///< Hugging Face's, of the module; of a vector the tensor's
  std::size_t rows = 1;                                   ///< outputs of a matrix
  std::size_t cols = 0;                                   ///< inputs of a matrix, channels of a norm or a vector
  WeightFormat format{.kind = WeightFormat::Kind::kF32};  ///< of a matrix; the writer chooses that of others
  bool free_format = false;         ///< an integer format that was not named: a search may change it
  std::size_t outlier_columns = 0;  ///< of an integer matrix, kept in 16 bits
  DType half_type = DType::kF16;    ///< kF16 or kBF16: of the scales and outlier columns
  bool bias = false;
  ActivationType activations = ActivationType::kInt8;  ///< what the input of a matrix of codes becomes
  std::uint64_t bytes_before = 0;                      ///< in the original

  bool is_quantized() const { return format.quantizes(); }
  std::size_t weights() const;  ///< elements; a matrix' bias does not count
};

/// A module with its values.
struct ConvertedModule {
  ModulePlan plan;
  std::vector<float> values;  ///< [rows][cols]: of a plain matrix, a norm's gains, a vector; empty where quantized
  std::optional<formats::CodeMatrix> quantized;
  std::vector<float> bias;  ///< [rows], of a norm [cols], or empty
  model::LinearFolds folds{};
};

/// Returns the plan of a matrix of a block, with or without values.
ModulePlan plan_linear(const WorkingLinear& linear, std::size_t layer);

/// Returns the plans of all modules of a block in the order of writing: norms, linears, vectors. Norms keep their bias
/// if `norm_bias`. The block may have no values.
std::vector<ModulePlan> plan_modules(const WorkingBlock& block, bool norm_bias);

/// Returns the same modules with the block's values, which are moved out of it.
std::vector<ConvertedModule> take_modules(WorkingBlock block, bool norm_bias);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_WRITE_CONVERTED_MODULE_H_
