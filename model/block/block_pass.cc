#include "model/block/block_pass.h"

#include <algorithm>

#include "kernels/parallel.h"

namespace ballast::model {

float* BlockPass::buffer(std::size_t index, std::size_t size) const {
  activations.of_mixer[index].grow(size);
  return activations.of_mixer[index].data();
}

void BlockPass::record(std::span<const Linear* const> linears, const float* input, const StepRows& step) const {
  LinearInput& recorded = activations.inputs.emplace_back();
  for (const Linear* linear : linears) recorded.readers.push_back(linear->part);
  recorded.cols = linears.front()->cols();
  recorded.rows = input;
  recorded.count = step.count();
  recorded.tokens.assign(step.chosen().begin(), step.chosen().end());
}

void BlockPass::apply_linears(std::span<const LinearOutput> outputs, const LinearRows& input,
                              const StepRows& step) const {
  if (!options.record_inputs) {
    if (step.count() > 0) apply(outputs, input, step, activations.linears);
    return;
  }
  const LinearRows kept = record_input(outputs, input, step);
  if (step.count() > 0) apply(outputs, kept, step, activations.linears);
}

LinearRows BlockPass::record_input(std::span<const LinearOutput> outputs, const LinearRows& input,
                                   const StepRows& step) const {
  std::vector<const Linear*> linears;
  for (const LinearOutput& output : outputs) linears.push_back(output.linear);
  const LinearRows kept = input.in_memory(step.count());
  record(linears, kept.all(step.count()), step);
  return kept;
}

void add_values(const float* values, std::size_t count, float scale, float* sum) {
  kernels::parallel_ranges(count, kernels::threads_for(count), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) sum[i] += scale * values[i];
  });
}

std::size_t keep_wanted_rows(std::span<const BatchSequence> batch, std::size_t row_size, float* rows) {
  std::size_t kept = 0;
  float* to = rows;
  const float* end = rows;
  for (const BatchSequence& sequence : batch) {
    end += sequence.tokens * row_size;
    const std::size_t count = sequence.wanted * row_size;
    if (end - count != to) std::copy_n(end - count, count, to);  // towards the front: they may overlap
    to += count;
    kept += sequence.wanted;
  }
  return kept;
}

}  // namespace ballast::model
