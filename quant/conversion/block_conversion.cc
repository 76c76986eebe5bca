#include "quant/conversion/block_conversion.h"

#include <algorithm>
#include <utility>

#include "kernels/scratch.h"
#include "quant/block/runnable_block.h"
#include "quant/measure/head_input.h"
#include "quant/quantize/quantize.h"

namespace ballast::quant {

using Values = PreparedBlocks::Values;

BlockConversion::BlockConversion(const ConversionInputs& inputs, const Allocation* allocation, ConversionState* state,
                                 StepReporter& steps)
    : inputs_(inputs),
      state_(state),
      steps_(steps),
      blocks_(inputs.preparation(), allocation),
      runner_(blocks_.spec(), inputs.samples().length, steps.check_cancelled()),
      second_rounding_(inputs.source()) {
  if (inputs.corrects_drift()) original_.emplace(spec(), inputs.samples().length, steps.check_cancelled());
}

void BlockConversion::run(const Sink& sink) {
  restored_ = state_ != nullptr ? state_->blocks() : 0;
  for (std::size_t i = 0; i < blocks_.count(); ++i) {
    if (i == restored_ && restored_ > 0 && inputs_.rounds_with_samples()) restore_samples();
    kernels::give_back_free_memory();
    sink(i < restored_ ? restore(i) : convert(i));
    steps_.report("converting", i + 1, blocks_.count());
  }
  if (inputs_.draft_head().kept()) sink(inputs_.draft_head().convert(final_gain_));
}

/// Returns whether the result of a part is saved. A draft head is converted with the part before it.
bool BlockConversion::saves(std::size_t index) const {
  return state_ != nullptr && !(inputs_.draft_head().kept() && index + 1 == blocks_.count());
}

std::vector<ConvertedModule> BlockConversion::restore(std::size_t index) {
  // The passes also see the block without values, which the plan of the next ones needs.
  std::vector<ModulePlan> plan = plan_modules(blocks_.load(index, Values::kNone), spec().norm.bias);
  if (inputs_.ranks().first()) return state_->restore(index, std::move(plan));
  std::vector<ConvertedModule> modules;
  for (ModulePlan& module : plan) modules.emplace_back().plan = std::move(module);
  return modules;
}

std::vector<ConvertedModule> BlockConversion::convert(std::size_t index) {
  WorkingBlock block = blocks_.load(index, Values::kAll);
  round(block, index);
  second_rounding_.add(block);
  const auto last_norm = std::ranges::find(block.norms, model::Role::kFinalNorm, &WorkingNorm::role);
  if (last_norm != block.norms.end()) final_gain_ = last_norm->gain;
  std::vector<ConvertedModule> modules = take_modules(std::move(block), spec().norm.bias);
  inputs_.source().checkpoint().check_whole();
  if (saves(index)) state_->save(index, modules, sample_rows());
  return modules;
}

void BlockConversion::restore_samples() {
  const samples::SampleTokens own = inputs_.own_samples();
  runner_.resize(own);
  if (original_) original_->resize(own);
  state_->restore_samples(sample_rows());
  if (!spec().token_inputs) return;
  WorkingBlock front = blocks_.load(0, Values::kAll);
  measure_head(front, 0);
  quantize(front, inputs_.recipe().rounding, steps_.check_cancelled());
  runner_.set_origin(runnable_embedding(front, spec(), activation_roundings(inputs_.recipe())), own);
}

/// Returns all state of the samples that is saved.
std::vector<std::span<float>> BlockConversion::sample_rows() {
  std::vector<std::span<float>> rows;
  for (const std::span<float> part : runner_.rows().all()) rows.push_back(part);
  if (!original_) return rows;
  for (const std::span<float> part : original_->rows().all()) rows.push_back(part);
  return rows;
}

void BlockConversion::count_experts(const WorkingBlock& block) {
  for (std::size_t e = 0; e < block.expert_tokens.size(); ++e) {
    ++experts_;
    const auto lacks = [&](model::Role role) {
      const auto it = std::ranges::find(block.linears, model::Part{role, e}, &WorkingLinear::part);
      return it != block.linears.end() && block.expert_tokens[e] < it->cols;
    };
    if (lacks(model::Role::kExpertUp)) ++starved_up_;
    if (lacks(model::Role::kExpertDown)) ++starved_down_;
  }
}

std::vector<std::string> BlockConversion::notes() const {
  std::vector<std::string> notes = blocks_.notes();
  if (const std::optional<std::string> note = second_rounding_.note()) notes.push_back(*note);
  if (!inputs_.draft_head().note().empty()) notes.push_back(inputs_.draft_head().note());
  if (restored_ > 0) {
    notes.push_back("went on after " + std::to_string(restored_) + " of " + std::to_string(blocks_.count()) +
                    " parts: what these lines count is of the others");
  }
  if (experts_ == 0) return notes;
  const bool shrunk = inputs_.recipe().shrink_experts;
  notes.push_back("experts: " + std::to_string(experts_) + ", of which " + std::to_string(starved_up_) +
                  " got fewer tokens than gate and up have columns" + (shrunk ? " (weighed with all tokens)" : "") +
                  ", " + std::to_string(starved_down_) + " fewer than down has" +
                  (shrunk ? " (measured on others, too)" : ""));
  return notes;
}

void BlockConversion::round(WorkingBlock& block, std::size_t index) {
  const bool on_samples = inputs_.rounds_with_samples();
  if (on_samples && block.layer) return round_block(block, *block.layer);
  if (on_samples) measure_head(block, index);
  const samples::SampleTokens own = inputs_.own_samples();
  if (original_ && index == 0) original_->embed(runnable_embedding(block, spec(), run_with_int16), own);
  quantize(block, inputs_.recipe().rounding, steps_.check_cancelled());
  if (!on_samples || index > 0) return;
  runner_.embed(runnable_embedding(block, spec(), activation_roundings(inputs_.recipe())), own);
}

void BlockConversion::round_block(WorkingBlock& block, std::size_t layer) {
  const bool fine = inputs_.precision() == SamplePrecision::kFine;
  const std::size_t tokens = inputs_.samples().ids.size();
  const ActivationRoundings measured = fine ? run_decoded : rounding_over_tokens(tokens);
  const ActivationRoundings rounded = fine ? run_decoded : activation_roundings_over_tokens(inputs_.recipe(), tokens);
  const bool has_down =
      std::ranges::any_of(block.linears, [](const WorkingLinear& linear) { return is_down(linear.part.role); });
  if (original_ && has_down) {
    measure(block, layer, measured, MeasureOptions::Inputs::kBeforeDown);
    quantize_measured(block, steps_.check_cancelled());
    measure(block, layer, rounded, MeasureOptions::Inputs::kOfDown);
  } else {
    measure(block, layer, measured, MeasureOptions::Inputs::kAll);
  }
  count_experts(block);
  quantize(block, inputs_.recipe().rounding, steps_.check_cancelled());
  if (layer + 1 == spec().layers.size() && !has_own_head()) return;  // its output has no reader
  runner_.advance(model::assemble_block(spec(), layer, runnable_parts(block, spec(), rounded)), layer);
}

/// Measures the moments and the drift of inputs of a block, which runs with the matrices that are rounded so far.
void BlockConversion::measure(WorkingBlock& block, std::size_t layer, const ActivationRoundings& activations,
                              MeasureOptions::Inputs inputs) {
  measure_inputs(runner_, model::assemble_block(spec(), layer, runnable_parts(block, spec(), activations)), spec(),
                 layer, inputs_.sharing(),
                 {.inputs = inputs,
                  .each_expert = inputs != MeasureOptions::Inputs::kOfDown,
                  .shrink = inputs_.recipe().shrink_experts,
                  .original = original_ ? &*original_ : nullptr},
                 block);
}

/// Gives the part before or after the blocks the moments of the head's input, if it contains the head.
void BlockConversion::measure_head(WorkingBlock& block, std::size_t index) {
  WorkingInput* input = block.head_input();
  if (input == nullptr) return;
  if (index == 0) {
    input->moments = std::exchange(head_moments_, nullptr);
  } else if (block.linears[input->readers.front()].format.quantizes()) {
    input->moments = measure_head_input(spec(), block, runner_, inputs_.sharing(), false).moments;
  }
}

}  // namespace ballast::quant
