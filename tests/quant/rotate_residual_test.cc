#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "layers.h"
#include "quant/passes/passes.h"
#include "working_layer.h"

namespace ballast::quant {
namespace {

using model::Role;
using test::LayerValues;
using test::Random;
using test::Tokens;

/// Returns vectors of the residual stream after the rotation by the pass: as rows of an embedding.
Tokens rotated(Pass& pass, const Tokens& tokens) {
  WorkingBlock front;
  WorkingLinear& table = front.linears.emplace_back();
  table.part.role = Role::kEmbedding;
  table.rows = tokens.size();
  table.cols = tokens.front().size();
  for (const test::Vector& token : tokens) table.values.insert(table.values.end(), token.begin(), token.end());
  pass.run(front);
  Tokens result;
  for (std::size_t r = 0; r < table.rows; ++r) {
    const auto begin = table.values.begin() + static_cast<std::ptrdiff_t>(r * table.cols);
    result.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(table.cols));
  }
  return result;
}

TEST_CASE("a rotated block gives the rotated outputs for the rotated stream") {
  for (const BlockLayout layout : {BlockLayout::kPreNorm, BlockLayout::kParallel, BlockLayout::kParallelShared}) {
    for (const bool gated : {true, false}) {
      ModelSpec spec = test::small_spec();
      spec.layout = layout;
      test::mlp_of(spec).gated = gated;
      test::attention_of(spec).output_gate = true;
      spec.biases = {.query = true, .attention_output = true, .up = true, .down = true};
      Random random(4);
      WorkingBlock block = test::random_layer(spec, random);
      make_fold_norms()->run(block);
      const Tokens residual = random.tokens(9, spec.hidden_size);
      test::measure(spec, block, residual);
      const LayerValues before = test::run_layer(spec, block, residual);
      const auto pass = make_rotate_residual(spec, true);
      WorkingBlock plan = block;
      for (WorkingLinear& linear : plan.linears) linear.values.clear();
      pass->run(plan);
      pass->run(block);
      const LayerValues after = test::run_layer(spec, block, rotated(*pass, residual));
      CHECK(test::relative_change(rotated(*pass, before.attention_output), after.attention_output) < 4e-6);
      CHECK(test::relative_change(rotated(*pass, before.mlp_output), after.mlp_output) < 4e-6);

      for (std::size_t i = 0; i < block.linears.size(); ++i) {
        const WorkingLinear& linear = block.linears[i];
        CHECK(plan.linears[i].absmax == linear.absmax);
        for (const float value : linear.values) CHECK(std::abs(value) <= linear.absmax);
      }
      const ChannelStatistics expected = test::channel_statistics(after.attention_input);
      const ChannelStatistics& got = block.inputs.front().statistics->channels;
      for (std::size_t c = 0; c < expected.mean.size(); ++c) {
        CHECK(got.mean[c] == doctest::Approx(expected.mean[c]).epsilon(1e-4));
      }
    }
  }
}

TEST_CASE("one channel that is large spreads evenly over all") {
  const ModelSpec spec = test::small_spec();
  const auto pass = make_rotate_residual(spec, true);
  test::Vector massive(spec.hidden_size, 0.0);
  massive[5] = 24000;
  const Tokens spread = rotated(*pass, {massive});
  for (const double value : spread.front()) {
    CHECK(std::abs(value) == doctest::Approx(24000 / std::sqrt(12.0)));
  }
}

TEST_CASE("readers of a latent vector are not rotated, and routers and experts are") {
  ModelSpec spec = test::small_spec();
  test::attention_of(spec).kv_heads = test::attention_of(spec).heads;
  test::attention_of(spec).rope->rotary_size = 2;
  test::make_latent(spec, 5, 6);
  test::mlp_of(spec).experts = ExpertSpec{.count = 3, .per_token = 1, .size = 4, .shared_size = 5};
  Random random(3);
  WorkingBlock block = test::random_layer(spec, random);
  WorkingBlock before = block;
  make_rotate_residual(spec, true)->run(block);
  for (const Role role : {Role::kQuery, Role::kKey, Role::kValue}) {
    CHECK(block.find(role)->values == before.find(role)->values);
  }
  for (const Role role : {Role::kQueryDown, Role::kKeyValueDown, Role::kKeyPosition, Role::kAttentionOutput,
                          Role::kRouter, Role::kExpertUp, Role::kExpertDown, Role::kSharedGate, Role::kSharedDown}) {
    CHECK(block.find(role)->values != before.find(role)->values);
  }
}

TEST_CASE("if a rotation is not legal, nothing is rotated and the reason is reported") {
  ModelSpec tied = test::small_spec();
  tied.tied_embeddings = true;
  for (const ModelSpec& spec : {tied, test::small_layer_norm_spec()}) {
    Random random(3);
    WorkingBlock block = test::random_layer(spec, random);
    const WorkingBlock before = block;
    const auto pass = make_rotate_residual(spec, true);
    pass->run(block);
    for (std::size_t i = 0; i < block.linears.size(); ++i) CHECK(block.linears[i].values == before.linears[i].values);
    CHECK(pass->note().starts_with("rotate: the residual stream is not rotated, because "));
  }
}

}  // namespace
}  // namespace ballast::quant
