// What a model's head reads, measured over the samples that have passed all blocks.
#ifndef BALLAST_QUANT_HEAD_INPUT_H_
#define BALLAST_QUANT_HEAD_INPUT_H_

#include <functional>
#include <memory>

#include "ballast/spec.h"
#include "quant/rounding/hessian.h"
#include "quant/search/input_peaks.h"
#include "quant/working_block.h"
#include "samples/block_runner.h"

namespace ballast::quant {

struct HeadInput {
  std::shared_ptr<const Hessian> moments;
  std::shared_ptr<const InputPeaks> peaks;  ///< null when not asked for
};

/// `runner`: holds a rank's own samples after the last block. `back` has what lies between that and the head. All
/// tokens count alike.
///
/// An embedding that is the head, too, is read in both places, and where the stream begins an error in one channel
/// counts as much as in another: `spec.tied_embeddings` adds a share of the diagonal's mean to all of it. `check` is
/// called now and then, and may throw.
HeadInput measure_head_input(const ModelSpec& spec, const WorkingBlock& back, const samples::BlockRunner& runner,
                             const samples::SampleSharing& sharing, bool peaks, const std::function<void()>& check);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_HEAD_INPUT_H_
