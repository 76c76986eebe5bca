// Measures what the linears of a block read, while calibration samples run through the block.
#ifndef BALLAST_QUANT_MEASURE_INPUTS_H_
#define BALLAST_QUANT_MEASURE_INPUTS_H_

#include <cstddef>

#include "ballast/spec.h"
#include "quant/working_block.h"
#include "samples/block_runner.h"

namespace ballast::quant {

struct MeasureOptions {
  enum class Inputs {
    kAll,
    kBeforeDown,  ///< all but those below
    kOfDown,      ///< of the last linears of an MLP, experts' too
  };
  Inputs inputs = Inputs::kAll;
  samples::BlockRunner::Then then = samples::BlockRunner::Then::kStay;
  bool peaks = false;        ///< where inputs become INT8: WorkingInput::peaks, too
  bool each_expert = false;  ///< WorkingInput::expert_moments, too
  bool shrink = true;        ///< false: experts are known from their own tokens alone
  /// The same samples in the original model: with kOfDown after this block, else in front of it, which they then pass
  /// by the weights given. Null: WorkingInput::drift is not measured.
  samples::BlockRunner* original = nullptr;
};

/// Gives the inputs of `block` the moments, and the peaks if asked for, of what its linears read, over the samples of
/// all ranks; `weights` are what runs of it.
///
/// In front of linears that write the stream, a token counts by what the next norm will make of an error there: by
/// the inverse of its mean square after the block (about alike for all where the block ends with a norm), the
/// original one where that runs beside it. Else a massive token, whose errors no norm lets through, would outweigh
/// all others.
///
/// Experts that get fewer tokens than their last linear has columns are measured on others, too: see
/// samples::ExpertTokens. They count in the moments, but with routed_share in what rounding costs.
void measure_inputs(samples::BlockRunner& runner, const model::BlockWeights& weights, const ModelSpec& spec,
                    std::size_t layer, const samples::SampleSharing& sharing, const MeasureOptions& options,
                    WorkingBlock& block);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_MEASURE_INPUTS_H_
