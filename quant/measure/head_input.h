// Measures the input of a model's head, over the samples that have passed all blocks.
#ifndef BALLAST_QUANT_MEASURE_HEAD_INPUT_H_
#define BALLAST_QUANT_MEASURE_HEAD_INPUT_H_

#include <memory>

#include "ballast/spec.h"
#include "quant/block/working_block.h"
#include "quant/rounding/hessian.h"
#include "quant/rounding/input_peaks.h"
#include "samples/block_runner.h"

namespace ballast::quant {

struct HeadInput {
  std::shared_ptr<const Hessian> moments;
  std::shared_ptr<const InputPeaks> peaks;  ///< null when not asked for
};

/// Measures the head's input. `runner` holds a rank's own samples after the last block; `back` has what is between that
/// and the head. All tokens count alike.
///
/// An embedding that is the head, too, is read in both places, and at the beginning of the stream an error in one
/// channel counts as much as in another: with `spec.tied_embeddings`, a share of the diagonal's mean is added to all of
/// the diagonal.
HeadInput measure_head_input(const ModelSpec& spec, const WorkingBlock& back, samples::BlockRunner& runner,
                             const samples::SampleSharing& sharing, bool peaks);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_MEASURE_HEAD_INPUT_H_
