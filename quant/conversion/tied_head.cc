#include "quant/conversion/tied_head.h"

#include <cstddef>

#include "quant/block/runnable_block.h"
#include "quant/conversion/prepared_blocks.h"
#include "quant/measure/head_input.h"
#include "samples/block_runner.h"

namespace ballast::quant {

std::shared_ptr<const Hessian> measure_tied_head(const ConversionInputs& inputs, StepReporter& steps) {
  PreparedBlocks blocks(inputs.preparation());
  const ModelSpec& spec = blocks.spec();
  samples::BlockRunner runner(spec, inputs.samples().length, steps.check_cancelled());
  const ActivationRoundings measured = rounding_over_tokens(inputs.samples().ids.size());
  {
    const WorkingBlock front = blocks.load(0, PreparedBlocks::Values::kAll);
    runner.embed(runnable_embedding(front, spec, run_with_int16), inputs.own_samples());
  }
  for (std::size_t layer = 0; layer < spec.layers.size(); ++layer) {
    const WorkingBlock block = blocks.load(layer + 1, PreparedBlocks::Values::kAll);
    runner.advance(model::assemble_block(spec, layer, runnable_parts(block, spec, measured)), layer);
    steps.report("measuring the head's input", layer + 1, spec.layers.size());
  }
  const WorkingBlock back = blocks.load(blocks.count() - 1, PreparedBlocks::Values::kAll);
  return measure_head_input(spec, back, runner, inputs.sharing(), false).moments;
}

}  // namespace ballast::quant
