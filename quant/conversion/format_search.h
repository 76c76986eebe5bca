// The choice of a format for every matrix, so that the model fits into a target size.
#ifndef BALLAST_QUANT_CONVERSION_FORMAT_SEARCH_H_
#define BALLAST_QUANT_CONVERSION_FORMAT_SEARCH_H_

#include <cstdint>
#include <memory>

#include "quant/conversion/conversion_inputs.h"
#include "quant/conversion/step_reporter.h"
#include "quant/search/allocation.h"
#include "quant/search/weighed_formats.h"

namespace ballast::quant {

class FormatSearch {
 public:
  /// Both arguments must outlive this.
  FormatSearch(const ConversionInputs& inputs, StepReporter& steps) : inputs_(inputs), steps_(steps) {}

  /// Returns the choice with the least expected divergence. Throws Error if none fits into the recipe's target.
  Allocation run();

  /// Returns the costs and bytes that the choice is based on. They are measured on the model's samples by the first
  /// call, or known from an earlier conversion (ConvertOptions::format_costs).
  const WeighedFormats& weighed();

 private:
  std::shared_ptr<const WeighedFormats> weigh();

  /// Returns the bytes of the files with the formats of `allocation`.
  std::uint64_t file_bytes(const Allocation& allocation);

  const ConversionInputs& inputs_;
  StepReporter& steps_;
  std::shared_ptr<const WeighedFormats> weighed_;
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_CONVERSION_FORMAT_SEARCH_H_
