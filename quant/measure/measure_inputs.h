// Measures the inputs of a block's linears while calibration samples run through it.
#ifndef BALLAST_QUANT_MEASURE_MEASURE_INPUTS_H_
#define BALLAST_QUANT_MEASURE_MEASURE_INPUTS_H_

#include <cstddef>

#include "ballast/spec.h"
#include "quant/block/working_block.h"
#include "samples/block_runner.h"

namespace ballast::quant {

struct MeasureOptions {
  enum class Inputs {
    kAll,
    kBeforeDown,  ///< all but those below
    kOfDown,      ///< inputs of the last linears of an MLP, including experts
  };
  Inputs inputs = Inputs::kAll;
  samples::BlockRunner::Then then = samples::BlockRunner::Then::kStay;
  bool peaks = false;        ///< if inputs become INT8: also WorkingInput::peaks
  bool each_expert = false;  ///< WorkingInput::expert_moments, too
  bool shrink = true;        ///< false: experts are known from their own tokens alone
  /// The same samples in the original model: with kOfDown after this block, otherwise before it; they then pass it with
  /// the given weights. Null: WorkingInput::drift is not measured.
  samples::BlockRunner* original = nullptr;
};

/// Sets the moments, and the peaks if requested, of the inputs of `block`, over the samples of all ranks; `weights` are
/// its runnable weights.
///
/// Before linears that write the stream, a token's weight is the effect of an error on the next norm's output: the
/// inverse of its mean square after the block (about equal for all if the block ends with a norm), that of the original
/// if it runs, too. Otherwise a massive token, whose errors no norm passes on, would outweigh all others.
///
/// Experts with fewer tokens than columns of their last linear are measured on others, too: see samples::ExpertTokens.
/// These count in the moments, but with routed_share in the cost of rounding.
void measure_inputs(samples::BlockRunner& runner, const model::BlockWeights& weights, const ModelSpec& spec,
                    std::size_t layer, const samples::SampleSharing& sharing, const MeasureOptions& options,
                    WorkingBlock& block);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_MEASURE_MEASURE_INPUTS_H_
