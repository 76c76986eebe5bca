// What a conversion that runs samples expects to take.
#ifndef BALLAST_QUANT_CONVERSION_CONVERSION_FORECAST_H_
#define BALLAST_QUANT_CONVERSION_CONVERSION_FORECAST_H_

#include "ballast/progress.h"
#include "ballast/recipe.h"
#include "ballast/spec.h"
#include "quant/conversion/sample_precision.h"
#include "samples/sample_tokens.h"

namespace ballast::quant {

struct ConversionWork {
  bool rounds_with_samples = false;  ///< GPTQ
  bool corrects_drift = false;       ///< also runs the original model
  bool chooses_formats = false;      ///< for a target size
  bool runs_to_head = false;         ///< runs once more, for the input of a tied head
  SamplePrecision precision = SamplePrecision::kCoarse;
  bool smooths = false;
  ActivationType activations = ActivationType::kInt16;
  std::size_t probe_samples = 0;
};

/// Forecasts this rank's memory and time for samples of `length` tokens divided by `sharing`. Measures the machine's
/// speed of products. Throws Error if the memory is not available, naming the largest number of samples that fits.
JobPlan forecast_conversion(const ModelSpec& spec, const ConversionWork& work, std::size_t length,
                            const samples::SampleSharing& sharing);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_CONVERSION_CONVERSION_FORECAST_H_
