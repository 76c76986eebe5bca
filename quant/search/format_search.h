// The choice of a format for every matrix, so that the model fits into a target size.
#ifndef BALLAST_QUANT_SEARCH_FORMAT_SEARCH_H_
#define BALLAST_QUANT_SEARCH_FORMAT_SEARCH_H_

#include <cstdint>
#include <memory>

#include "quant/conversion/conversion_inputs.h"
#include "quant/conversion/step_reporter.h"
#include "quant/search/allocation.h"
#include "quant/search/weighed_formats.h"
#include "quant/write/model_format.h"

namespace ballast::quant {

class FormatSearch {
 public:
  /// All arguments must outlive this object.
  FormatSearch(const ConversionInputs& inputs, const ModelFormat& format, StepReporter& steps)
      : inputs_(inputs), format_(format), steps_(steps) {}

  /// The choice of the least expected divergence. Throws Error when none fits into the recipe's target.
  Allocation run();

  /// What the choice is made from, measured on the model's samples when it is first asked for, or by an earlier
  /// conversion (ConvertOptions::format_costs).
  const WeighedFormats& weighed();

 private:
  std::shared_ptr<const WeighedFormats> weigh();

  /// Returns the bytes of the files with the chosen formats.
  std::uint64_t file_bytes(const Allocation& allocation);

  const ConversionInputs& inputs_;
  const ModelFormat& format_;
  StepReporter& steps_;
  std::shared_ptr<const WeighedFormats> weighed_;
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_SEARCH_FORMAT_SEARCH_H_
