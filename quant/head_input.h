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

/// Measures the head's input. `runner` holds this rank's samples after the last block; `back` has the weights between
/// it and the head. All tokens have the same weight.
///
/// An embedding that is also the head is read in both places, and at the beginning of the stream errors in all channels
/// count equally: with `spec.tied_embeddings` a share of the diagonal's mean is added to the diagonal. `check` is
/// called from time to time, and may throw.
HeadInput measure_head_input(const ModelSpec& spec, const WorkingBlock& back, const samples::BlockRunner& runner,
                             const samples::SampleSharing& sharing, bool peaks, const std::function<void()>& check);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_HEAD_INPUT_H_
