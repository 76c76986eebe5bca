#include "model/mixer/head_memories.h"

#include "kernels/activation.h"
#include "kernels/parallel.h"

namespace ballast::model {

void follow_heads(const BlockPass& pass, std::size_t heads, std::size_t operations,
                  const std::function<void(const HeadRun&)>& run) {
  find_first_rows(pass);
  const std::size_t threads = kernels::threads_for(pass.tokens * heads * operations);
  kernels::parallel_tasks(pass.batch.size() * heads, threads, [&](std::size_t task, std::size_t) {
    const BatchSequence& sequence = pass.batch[task / heads];
    std::vector<float>& memory = static_cast<MemoryState&>(*sequence.state->mixer(pass.state_layer)).memory;
    const std::size_t head = task % heads;
    run({.tokens = sequence.tokens,
         .first_row = pass.activations.first_rows[task / heads],
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

std::size_t keep_wanted_outputs(const BlockPass& pass, std::size_t width, float* outputs, float* gates, float* hidden) {
  if (!pass.options.wanted_only) return pass.tokens;
  const std::size_t left = keep_wanted_rows(pass.batch, width, outputs);
  if (left == 0) return 0;
  keep_wanted_rows(pass.batch, width, gates);
  keep_wanted_rows(pass.batch, pass.spec.hidden_size, hidden);
  return left;
}

std::vector<float> decay_rates(const std::vector<float>& logarithms) {
  std::vector<float> rates;
  rates.reserve(logarithms.size());
  for (const float logarithm : logarithms) rates.push_back(std::exp(logarithm));
  return rates;
}

}  // namespace ballast::model
