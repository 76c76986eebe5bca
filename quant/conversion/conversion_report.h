// The report of a complete conversion.
#ifndef BALLAST_QUANT_CONVERSION_CONVERSION_REPORT_H_
#define BALLAST_QUANT_CONVERSION_CONVERSION_REPORT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ballast/convert.h"
#include "quant/conversion/conversion_inputs.h"
#include "quant/search/allocation.h"
#include "quant/write/model_format.h"

namespace ballast::quant {

/// Counts the modules of a model; equal ones form one group.
class ModuleTally {
 public:
  explicit ModuleTally(const ModelFormat& format) : format_(format) {}

  void add(const ModulePlan& module);

  /// Includes the expected costs of an allocation, unless it is null.
  std::vector<TensorGroupReport> groups(const Allocation* allocation) const;

  /// Returns the number of matrices by format.
  const std::map<std::string, std::size_t>& matrices() const { return matrices_; }

  std::size_t quantized() const { return quantized_; }                  ///< matrices of integers
  std::size_t int16_activations() const { return int16_activations_; }  ///< of these, whose input becomes INT16
  std::uint64_t weights() const { return weights_; }

 private:
  struct Row {
    ModuleId id;
    TensorGroupReport report;
  };

  const ModelFormat& format_;
  std::vector<Row> rows_;
  std::map<std::string, std::size_t> matrices_;
  std::size_t quantized_ = 0;
  std::size_t int16_activations_ = 0;
  std::uint64_t weights_ = 0;
};

/// `notes` are the passes', `bytes` those of the tensor files. `allocation` is null if the recipe set the formats.
ConvertReport conversion_report(const ConversionInputs& inputs, const ModuleTally& modules,
                                const Allocation* allocation, const std::vector<std::string>& notes,
                                std::uint64_t bytes);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_CONVERSION_CONVERSION_REPORT_H_
