// The blocks of a conversion, which are prepared, rounded and passed on one after the other.
#ifndef BALLAST_QUANT_CONVERSION_BLOCK_CONVERSION_H_
#define BALLAST_QUANT_CONVERSION_BLOCK_CONVERSION_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "quant/block/runnable_block.h"
#include "quant/conversion/conversion_inputs.h"
#include "quant/conversion/conversion_state.h"
#include "quant/conversion/prepared_blocks.h"
#include "quant/conversion/second_rounding.h"
#include "quant/conversion/step_reporter.h"
#include "quant/measure/measure_inputs.h"
#include "quant/write/converted_module.h"
#include "samples/block_runner.h"

namespace ballast::quant {

class BlockConversion {
 public:
  /// `allocation` and `state` may be null: then formats are the recipe's, and nothing is saved. All must outlive this.
  BlockConversion(const ConversionInputs& inputs, const Allocation* allocation, ConversionState* state,
                  StepReporter& steps);

  /// Sets the moments of the head's input, for an embedding that is also the head: it is rounded before they could be
  /// measured. Without them it is rounded by search.
  void set_head_moments(std::shared_ptr<const Hessian> moments) { head_moments_ = std::move(moments); }

  /// Is called for the modules of each block, in order. On ranks other than the first, those of blocks that were saved
  /// earlier have no values.
  using Sink = std::function<void(std::span<const ConvertedModule>)>;

  /// Rounds block after block, each by the inputs of its linears when all earlier blocks are rounded; continues after
  /// saved blocks. Must be called once. Throws Error.
  void run(const Sink& sink);

  /// Returns the spec after the passes.
  const ModelSpec& spec() const { return blocks_.spec(); }

  /// Returns a line about each pass, about the samples of experts, and about matrices that were rounded twice, for
  /// blocks that were not restored; if some were restored, a line says so.
  std::vector<std::string> notes() const;

 private:
  std::vector<ConvertedModule> restore(std::size_t index);
  std::vector<ConvertedModule> convert(std::size_t index);
  bool saves(std::size_t index) const;
  void restore_samples();
  void round(WorkingBlock& block, std::size_t index);
  void round_block(WorkingBlock& block, std::size_t layer);
  void measure(WorkingBlock& block, std::size_t layer, const ActivationRoundings& activations,
               MeasureOptions::Inputs inputs);
  void measure_head(WorkingBlock& block, std::size_t index);
  std::vector<std::span<float>> sample_rows();
  bool has_own_head() const { return spec().has_head && !spec().tied_embeddings; }
  void count_experts(const WorkingBlock& block);

  const ConversionInputs& inputs_;
  ConversionState* state_;
  StepReporter& steps_;
  PreparedBlocks blocks_;
  samples::BlockRunner runner_;
  std::optional<samples::BlockRunner> original_;  ///< the same samples in the original model, if drift is corrected
  SecondRounding second_rounding_;
  std::shared_ptr<const Hessian> head_moments_;
  std::vector<float> final_gain_;  ///< of the last norm after the passes; empty before it was converted
  std::size_t restored_ = 0;       ///< blocks, embeddings and head counted, that were saved earlier
  std::size_t experts_ = 0;
  std::size_t starved_up_ = 0;
  std::size_t starved_down_ = 0;
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_CONVERSION_BLOCK_CONVERSION_H_
