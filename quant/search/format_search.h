// The choice of a format for every matrix, so that the model fits into a target size.
#ifndef BALLAST_QUANT_SEARCH_FORMAT_SEARCH_H_
#define BALLAST_QUANT_SEARCH_FORMAT_SEARCH_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "quant/conversion/conversion_inputs.h"
#include "quant/conversion/step_reporter.h"
#include "quant/rounding/hessian.h"
#include "quant/search/allocation.h"
#include "quant/write/model_format.h"

namespace ballast::quant {

class FormatSearch {
 public:
  /// All of them must outlive this.
  FormatSearch(const ConversionInputs& inputs, const ModelFormat& format, StepReporter& steps)
      : inputs_(inputs), format_(format), steps_(steps) {}

  /// The choice of the least expected divergence. Throws Error when none fits into the recipe's target.
  Allocation run();

  /// What each format of each matrix whose format is free costs and takes, measured on the model's samples.
  std::vector<InputChoice> weigh();

  /// Of what the head reads, once formats were weighed; null where the model has no head.
  const std::shared_ptr<const Hessian>& head_moments() const { return head_moments_; }

 private:
  /// Bytes of the files with the matrices as they were chosen.
  std::uint64_t file_bytes(const Allocation& allocation) const;

  const ConversionInputs& inputs_;
  const ModelFormat& format_;
  StepReporter& steps_;
  std::vector<ModulePlan> plan_;  ///< of the whole model, from its weights
  std::shared_ptr<const Hessian> head_moments_;
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_SEARCH_FORMAT_SEARCH_H_
