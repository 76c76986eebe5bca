// Loads a model's linears in the forms that kernels multiply: views of the file, repacked codes, or floats.
#ifndef BALLAST_MODEL_SOURCE_LINEAR_LOADER_H_
#define BALLAST_MODEL_SOURCE_LINEAR_LOADER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ballast/activation_type.h"
#include "ballast/compute_options.h"
#include "formats/codecs/ballast.h"
#include "formats/codecs/codec.h"
#include "model/block/weights.h"
#include "model/source/tensor_decoder.h"
#include "model/source/tensor_locator.h"

namespace ballast::model {

/// A module that another program quantized.
struct ForeignModule {
  std::string type;                  ///< "GPTQ int4-g128": the program's name, bits and columns of a group
  std::vector<std::string> tensors;  ///< names; the first is that of the codes
  std::uint64_t weights = 0;
  bool keeps_codes = false;  ///< false: the matrix is decoded to floats, even when inputs are quantized
};

/// Thread-safe, except for the functions that set something. Locator and decoder must outlive it.
class LinearLoader {
 public:
  LinearLoader(const TensorLocator& locator, const TensorDecoder& decoder) : locator_(locator), decoder_(decoder) {}

  void set_compute(const ComputeOptions& options);
  const ComputeOptions& compute() const { return compute_; }
  void set_code_activations(ActivationType type) { code_activations_ = type; }
  ActivationType code_activations() const { return code_activations_; }

  Linear linear(Role role, std::size_t layer, std::size_t expert) const;
  std::vector<std::unique_ptr<const formats::StoredQuantizedTensor>> quantized_ranges(Role role, std::size_t layer,
                                                                                      std::size_t expert) const;
  std::optional<formats::StoredCodes> stored_codes(Role role, std::size_t layer, std::size_t expert) const;
  std::map<std::string, ForeignModule> foreign_modules() const;

 private:
  /// Return a linear with integer weights, from ballast's files or from another program's codes, or nullopt if the
  /// matrix has none.
  std::optional<Linear> quantized_linear(Role role, std::size_t layer, std::size_t expert) const;
  std::optional<Linear> linear_of_codes(Role role, std::size_t layer, std::size_t expert) const;

  /// Return the codes of a matrix in GGUF blocks, or in another program's format, or nullopt if kernels cannot use
  /// them.
  std::optional<formats::StoredCodes> block_codes(const MatrixLocation& matrix, std::size_t rows,
                                                  std::size_t cols) const;
  std::optional<formats::StoredCodes> codec_codes(const MatrixLocation& matrix, std::size_t rows,
                                                  std::size_t cols) const;
  bool can_keep_codes(const MatrixLocation& matrix, Role role, std::size_t layer, std::size_t expert) const;
  std::size_t stored_rows(const std::string& module) const;

  /// Returns a view of a matrix of floats that can be multiplied where it is in the file, or nullopt.
  std::optional<kernels::FloatMatrix> mapped_floats(const MatrixLocation& matrix, Role role, std::size_t layer,
                                                    std::size_t expert) const;
  void add_module(Role role, std::size_t layer, std::size_t expert,
                  std::map<std::string, ForeignModule>& modules) const;

  const TensorLocator& locator_;
  const TensorDecoder& decoder_;
  ComputeOptions compute_;
  ActivationType code_activations_ = ActivationType::kFloat;  ///< see ModelSource::set_code_activations
};

}  // namespace ballast::model

#endif  // BALLAST_MODEL_SOURCE_LINEAR_LOADER_H_
