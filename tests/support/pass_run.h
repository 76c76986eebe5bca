// Runs a pass on a random transformer block.
#ifndef BALLAST_TESTS_SUPPORT_PASS_RUN_H_
#define BALLAST_TESTS_SUPPORT_PASS_RUN_H_

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

#include "quant/passes/passes.h"
#include "working_layer.h"

namespace ballast::test {

/// The allowed effect of rounding to F32 on a block's outputs.
inline constexpr double kRounding = 2e-6;

/// A pass on a random block: the block before and after, and its outputs.
struct Run {
  quant::WorkingBlock block;
  quant::WorkingBlock original;
  LayerValues before;
  LayerValues after;
  std::string note;
};

/// Runs a pass on a random block with inputs of very different magnitudes. Checks that bounds hold and that a plan has
/// the same result. `prepare` may change the block before it is measured.
inline Run run_pass(
    const ModelSpec& spec, quant::Pass& pass, const std::function<void(quant::WorkingBlock&)>& prepare = [](auto&) {}) {
  Random random(5);
  Run run;
  run.block = random_layer(spec, random);
  for (quant::WorkingLinear& linear : run.block.linears) {
    const Vector sizes = random.vector(linear.rows, -6, 6);
    for (std::size_t i = 0; i < linear.values.size(); ++i) {
      linear.values[i] *= static_cast<float>(std::exp2(sizes[i / linear.cols]));
      linear.absmax = std::max(linear.absmax, std::abs(linear.values[i]));
    }
  }
  prepare(run.block);
  const Tokens residual = random.tokens(9, spec.hidden_size);
  measure(spec, run.block, residual);
  run.original = run.block;
  run.before = run_layer(spec, run.block, residual);
  pass.run(run.block);
  run.note = pass.note();
  ModelSpec after = spec;
  pass.update_spec(after);
  run.after = run_layer(after, run.block, residual);
  for (const quant::WorkingLinear& linear : run.block.linears) {
    for (const float value : linear.values) CHECK(std::abs(value) <= linear.absmax);
  }
  quant::WorkingBlock plan = run.original;
  for (quant::WorkingLinear& linear : plan.linears) linear.values.clear();
  pass.run(plan);
  for (std::size_t i = 0; i < plan.linears.size(); ++i) {
    CHECK(plan.linears[i].absmax == run.block.linears[i].absmax);
    CHECK(plan.linears[i].bias.size() == run.block.linears[i].bias.size());
  }
  return run;
}

inline void check_same_function(const Run& run) {
  CHECK(relative_change(run.before.attention_output, run.after.attention_output) < kRounding);
  CHECK(relative_change(run.before.mlp_output, run.after.mlp_output) < kRounding);
}

inline void check_untouched(const Run& run) {
  for (std::size_t i = 0; i < run.block.linears.size(); ++i) {
    CHECK(run.block.linears[i].values == run.original.linears[i].values);
    CHECK(run.block.linears[i].bias == run.original.linears[i].bias);
  }
}

inline const ChannelStatistics& statistics_of(const Run& run, model::Role reader) {
  for (const quant::WorkingInput& input : run.block.inputs) {
    if (run.block.linears[input.readers.front()].part.role == reader) return input.statistics->channels;
  }
  FAIL("no such input");
  return run.block.inputs.front().statistics->channels;
}

}  // namespace ballast::test

#endif  // BALLAST_TESTS_SUPPORT_PASS_RUN_H_
