#include "model/mixer/head_memories.h"

#include "kernels/activation.h"
#include "kernels/parallel.h"

namespace ballast::model {

void follow_heads(const BlockPass& pass, std::size_t heads, std::size_t operations,
                  const std::function<void(const HeadRun&)>& run) {
  const std::size_t threads = kernels::threads_for(pass.tokens * heads * operations);
  kernels::parallel_tasks(pass.batch.size() * heads, threads, [&](std::size_t task, std::size_t) {
    const BatchSequence& sequence = pass.batch[task / heads];
    std::vector<float>& memory = static_cast<MemoryState&>(*sequence.state->mixer(pass.state_layer)).memory;
    const std::size_t head = task % heads;
    run({.tokens = sequence.tokens,
         .first_row = pass.rows.first_of(task / heads),
         .head = head,
         .memory = memory.data() + head * (memory.size() / heads)});
  });
}

void convolve_activated(const BlockPass& pass, const Convolution& convolution, std::size_t channels, const float* src,
                        float* dst) {
  constexpr std::size_t kOperationsOfAChannel = 32;  // a convolution and a SiLU
  const std::size_t threads = kernels::threads_for(pass.tokens * channels * kOperationsOfAChannel);
  kernels::parallel_ranges(channels, threads,
                           [&](std::size_t begin, std::size_t end) { convolution.run(pass, src, begin, end, dst); });
  kernels::activate(Activation::kSilu, dst, pass.tokens * channels);
}

std::size_t add_gated_outputs(const BlockPass& pass, const GatedRows& rows, const kernels::RowSource& gated,
                              const Linear& projection, float* hidden) {
  const StepRows& step = pass.rows_after_mixer();
  if (step.count() == 0) return 0;
  if (pass.options.wanted_only) {
    keep_wanted_rows(pass.batch, rows.width, rows.outputs);
    keep_wanted_rows(pass.batch, rows.width, rows.gates);
    keep_wanted_rows(pass.batch, pass.spec.hidden_size, hidden);
  }
  const LinearOutput output[] = {{&projection, hidden, pass.spec.hidden_size, true}};
  pass.apply_linears(output, {gated, rows.width, rows.outputs}, step);
  return step.count();
}

std::vector<float> decay_rates(const std::vector<float>& logarithms) {
  std::vector<float> rates;
  rates.reserve(logarithms.size());
  for (const float logarithm : logarithms) rates.push_back(std::exp(logarithm));
  return rates;
}

}  // namespace ballast::model
