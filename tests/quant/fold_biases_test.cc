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

constexpr std::size_t kTokens = 9;

void check_same_function(const LayerValues& before, const LayerValues& after) {
  CHECK(test::relative_change(before.attention_output, after.attention_output) < 2e-6);
  CHECK(test::relative_change(before.mlp_output, after.mlp_output) < 2e-6);
}

void check_statistics(const ChannelStatistics& got, const Tokens& tokens) {
  const ChannelStatistics expected = test::channel_statistics(tokens);
  for (std::size_t c = 0; c < expected.min.size(); ++c) {
    CAPTURE(c);
    CHECK(got.min[c] == doctest::Approx(expected.min[c]).epsilon(1e-4));
    CHECK(got.max[c] == doctest::Approx(expected.max[c]).epsilon(1e-4));
    CHECK(got.mean[c] == doctest::Approx(expected.mean[c]).epsilon(1e-4));
    CHECK(got.mean_square[c] == doctest::Approx(expected.mean_square[c]).epsilon(1e-4));
    CHECK(got.ordinary_absmax[c] == doctest::Approx(expected.ordinary_absmax[c]).epsilon(1e-4));
  }
}

struct Folded {
  ModelSpec spec;
  WorkingBlock block;
  LayerValues before;
  LayerValues after;
  std::string note;
};

/// Folds the biases of a random block and computes it before and after.
Folded fold(const ModelSpec& spec, unsigned seed = 1) {
  Random random(seed);
  Folded folded{.spec = spec, .block = test::random_layer(spec, random), .before = {}, .after = {}, .note = {}};
  const Tokens residual = random.tokens(kTokens, spec.hidden_size);
  test::measure(spec, folded.block, residual);
  folded.before = test::run_layer(spec, folded.block, residual);
  const auto pass = make_fold_biases(spec);
  pass->run(folded.block);
  pass->update_spec(folded.spec);
  folded.after = test::run_layer(folded.spec, folded.block, residual);
  folded.note = pass->note();
  return folded;
}

void check_biases_follow_the_spec(Folded& folded) {
  for (const WorkingLinear& linear : folded.block.linears) {
    CAPTURE(static_cast<int>(linear.part.role));
    CHECK(linear.bias.size() == (model::has_bias(folded.spec, 0, linear.part.role) ? linear.rows : 0));
  }
  for (const WorkingNorm& norm : folded.block.norms) {
    CHECK(norm.bias.empty() == !model::norm_spec(folded.spec, 0, norm.role).bias);
  }
}

TEST_CASE("without positions the norms' and values' biases are folded and the keys' dropped") {
  for (unsigned seed = 1; seed <= 3; ++seed) {
    Folded folded = fold(test::small_layer_norm_spec(), seed);
    check_same_function(folded.before, folded.after);
    check_biases_follow_the_spec(folded);
    CHECK(!folded.spec.biases.key);
    CHECK(!folded.spec.biases.value);
    CHECK(!folded.spec.norm.bias);
    CHECK(folded.spec.biases.query);
    CHECK(folded.note == "fold_biases: 2 norm biases and 1 value biases folded, 1 key biases dropped");
  }
}

TEST_CASE("statistics follow the folded biases") {
  Folded folded = fold(test::small_layer_norm_spec());
  check_statistics(folded.block.inputs[0].statistics->channels, folded.after.attention_input);
  check_statistics(folded.block.inputs[1].statistics->channels, folded.after.attention_mixed);
  check_statistics(folded.block.inputs[2].statistics->channels, folded.after.mlp_input);
  check_statistics(folded.block.inputs[3].statistics->channels, folded.after.mlp_hidden);
}

TEST_CASE("biases that a fold needs are created for grouped heads") {
  ModelSpec spec = test::small_layer_norm_spec();
  spec.biases = {};
  for (const std::size_t kv_heads : {1, 2, 4}) {
    test::attention_of(spec).kv_heads = kv_heads;
    Folded folded = fold(spec);
    check_same_function(folded.before, folded.after);
    check_biases_follow_the_spec(folded);
    CHECK(folded.spec.biases.query);
    CHECK(folded.spec.biases.attention_output);
    CHECK(folded.spec.biases.up);
    CHECK(!folded.spec.biases.down);
  }
}

TEST_CASE("under RoPE the keys' bias stays, except for the part that is not rotated") {
  ModelSpec spec = test::small_spec();
  spec.biases = {.query = true, .key = true, .value = true};
  Folded full = fold(spec);
  check_same_function(full.before, full.after);
  check_biases_follow_the_spec(full);
  CHECK(full.spec.biases.key);
  for (const float value : full.block.find(Role::kKey)->bias) CHECK(value != 0);

  test::attention_of(spec).rope = RopeSpec{.rotary_size = 2};
  Folded partial = fold(spec);
  check_same_function(partial.before, partial.after);
  const std::vector<float>& bias = partial.block.find(Role::kKey)->bias;
  for (std::size_t i = 0; i < bias.size(); ++i) CHECK((bias[i] == 0) == (i % test::attention_of(spec).head_size >= 2));
  CHECK(
      partial.note ==
      "fold_biases: 0 norm biases and 1 value biases folded, 0 key biases dropped, of 1 the part that is not rotated");
}

TEST_CASE("after an output gate and a key norm nothing is folded") {
  for (const bool head_gates : {false, true}) {
    ModelSpec spec = test::small_spec();
    spec.biases = {.query = true, .key = true, .value = true, .output_gate = head_gates, .attention_output = true};
    test::attention_of(spec).query_key_norm = HeadNormSpec{};
    test::attention_of(spec).output_gate = true;
    test::attention_of(spec).head_gates = head_gates;
    Folded folded = fold(spec);
    check_same_function(folded.before, folded.after);
    check_biases_follow_the_spec(folded);
    CHECK(folded.spec.biases.key);
    CHECK(folded.spec.biases.value);
    Random random(1);
    const WorkingBlock original = test::random_layer(spec, random);
    for (std::size_t i = 0; i < original.linears.size(); ++i) {
      CHECK(folded.block.linears[i].bias == original.linears[i].bias);
    }
  }
}

TEST_CASE("a norm's bias reaches the output gate, whose values' bias then stays") {
  ModelSpec spec = test::small_layer_norm_spec();
  spec.biases = {};
  test::attention_of(spec).output_gate = true;
  Folded folded = fold(spec);
  check_same_function(folded.before, folded.after);
  check_biases_follow_the_spec(folded);
  CHECK(folded.spec.biases.value);
  CHECK(folded.spec.biases.output_gate);
  CHECK(!folded.spec.biases.attention_output);
}

TEST_CASE("the bias of one norm before attention and MLP folds into both") {
  ModelSpec spec = test::small_layer_norm_spec();
  spec.layout = BlockLayout::kParallelShared;
  test::mlp_of(spec).gated = true;
  Folded folded = fold(spec);
  check_same_function(folded.before, folded.after);
  check_biases_follow_the_spec(folded);
  CHECK(folded.note == "fold_biases: 1 norm biases and 1 value biases folded, 1 key biases dropped");
}

TEST_CASE("norms that write the residual stream keep their bias") {
  ModelSpec spec = test::small_layer_norm_spec();
  spec.layout = BlockLayout::kPostNorm;
  Random random(1);
  WorkingBlock block = test::random_layer(spec, random);
  const WorkingBlock before = block;
  const auto pass = make_fold_biases(spec);
  pass->run(block);
  pass->update_spec(spec);
  CHECK(spec.norm.bias);
  CHECK(!spec.biases.key);
  CHECK(!spec.biases.value);
  for (std::size_t i = 0; i < block.norms.size(); ++i) CHECK(block.norms[i].bias == before.norms[i].bias);
}

TEST_CASE("a norm's bias folds into a router, but stays before the router of a shared MLP") {
  ModelSpec spec = test::small_layer_norm_spec();
  test::mlp_of(spec).gated = true;
  test::mlp_of(spec).experts =
      ExpertSpec{.count = 3, .per_token = 1, .size = 4, .shared_size = 5, .shared_router = true};
  Random random(1);
  WorkingBlock block = test::random_layer(spec, random);
  const WorkingBlock before = block;
  const auto pass = make_fold_biases(spec);
  pass->run(block);
  pass->update_spec(spec);
  CHECK(spec.norm.bias);
  CHECK(block.norms[0].bias == std::vector<float>(spec.hidden_size, 0.0F));
  CHECK(block.norms[1].bias == before.norms[1].bias);
  CHECK(!spec.biases.router);

  ModelSpec without = test::small_layer_norm_spec();
  test::mlp_of(without).experts = ExpertSpec{.count = 3, .per_token = 1, .size = 4};
  WorkingBlock other = test::random_layer(without, random);
  const auto folding = make_fold_biases(without);
  folding->run(other);
  folding->update_spec(without);
  CHECK(!without.norm.bias);
  CHECK(without.biases.router);
  const WorkingLinear& router = *other.find(Role::kRouter);
  CHECK(std::ranges::any_of(router.bias, [](float bias) { return bias != 0; }));
}

WorkingBlock last_block(Random& random) {
  WorkingBlock block;
  WorkingNorm& norm = block.norms.emplace_back();
  norm.role = Role::kFinalNorm;
  norm.gain = test::floats(random.vector(12));
  norm.bias = test::floats(random.vector(12));
  WorkingLinear& head = block.linears.emplace_back();
  head.part.role = Role::kHead;
  head.name = "lm_head";
  head.rows = 20;
  head.cols = 12;
  head.values = test::floats(random.vector(240));
  block.inputs.push_back({.readers = {0}, .norm = 0, .statistics = {}});
  return block;
}

TEST_CASE("the final norm's bias becomes that of an untied head, created or added to") {
  for (const bool biased : {false, true}) {
    ModelSpec spec = test::small_layer_norm_spec();
    spec.biases.head = biased;
    Random random(1);
    WorkingBlock block = last_block(random);
    const std::vector<float> old_bias = test::floats(random.vector(20));
    if (biased) {
      WorkingVector& vector = block.vectors.emplace_back();
      vector.role = Role::kHeadBias;
      vector.name = "cls.bias";
      vector.values = old_bias;
    }
    const test::Vector constant = test::output_of(block.linears[0], test::doubles(block.norms[0].bias));
    const auto pass = make_fold_biases(spec);
    pass->run(block);
    pass->update_spec(spec);
    CHECK(spec.biases.head);
    CHECK(!spec.norm.bias);
    REQUIRE(block.vectors.size() == 1);
    CHECK(block.vectors[0].name == (biased ? "cls.bias" : "lm_head.bias"));
    for (std::size_t i = 0; i < 20; ++i) {
      const double expected = constant[i] + (biased ? double{old_bias[i]} : 0.0);
      CHECK(block.vectors[0].values[i] == doctest::Approx(expected).epsilon(1e-6));
    }
  }
}

TEST_CASE("with a tied head the final norm keeps its bias, and the other norms have zeros") {
  ModelSpec spec = test::small_layer_norm_spec();
  spec.tied_embeddings = true;
  Folded folded = fold(spec);
  check_same_function(folded.before, folded.after);
  CHECK(folded.spec.norm.bias);
  CHECK(!folded.spec.biases.head);
  for (const WorkingNorm& norm : folded.block.norms) {
    CHECK(norm.bias == std::vector<float>(spec.hidden_size, 0.0F));
  }
}

TEST_CASE("a plan has the biases of the run") {
  ModelSpec spec = test::small_layer_norm_spec();
  spec.biases = {};
  Random random(1);
  WorkingBlock run = test::random_layer(spec, random);
  WorkingBlock plan = run;
  for (WorkingLinear& linear : plan.linears) linear.values.clear();
  make_fold_biases(spec)->run(run);
  make_fold_biases(spec)->run(plan);
  for (std::size_t i = 0; i < run.linears.size(); ++i) {
    CHECK(plan.linears[i].bias.size() == run.linears[i].bias.size());
    CHECK(plan.linears[i].absmax == run.linears[i].absmax);
  }
}

}  // namespace
}  // namespace ballast::quant
