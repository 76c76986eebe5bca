// Tests of center_norms, equalize and rotate_values.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "layers.h"
#include "pass_run.h"
#include "quant/passes/passes.h"
#include "working_layer.h"

namespace ballast::quant {
namespace {

using model::Role;
using test::check_same_function;
using test::check_untouched;
using test::kRounding;
using test::LayerValues;
using test::Random;
using test::Run;
using test::run_pass;
using test::statistics_of;
using test::Tokens;

TEST_CASE("centring removes the mean of a block's outputs and changes nothing else") {
  const ModelSpec spec = test::small_layer_norm_spec();
  const auto pass = make_center_norms(spec);
  const Run run = run_pass(spec, *pass);
  // The residual stream is not centred here: the results are compared after LayerNorms, not after the RMSNorms that
  // follow.
  const LayerValues layer_norm = [&] {
    Random random(6);
    return test::run_layer(spec, run.block, random.tokens(9, spec.hidden_size));
  }();
  const LayerValues expected = [&] {
    Random random(6);
    return test::run_layer(spec, run.original, random.tokens(9, spec.hidden_size));
  }();
  for (const auto& [got, original] : {std::pair{&layer_norm.attention_output, &expected.attention_output},
                                      std::pair{&layer_norm.mlp_output, &expected.mlp_output}}) {
    Tokens centered = *original;
    for (test::Vector& output : centered) output = test::centered(output);
    CHECK(test::relative_change(centered, *got) < kRounding);
  }
  ModelSpec after = spec;
  pass->update_spec(after);
  CHECK(after.norm.kind == NormSpec::Kind::kRms);
}

TEST_CASE("all tables that are added to the residual stream are centred") {
  const ModelSpec spec = test::small_layer_norm_spec();
  Random random(1);
  WorkingBlock block;
  for (const Role role : {Role::kEmbedding, Role::kPositionEmbedding, Role::kTokenTypeEmbedding}) {
    WorkingLinear& table = block.linears.emplace_back();
    table.part.role = role;
    table.rows = 4;
    table.cols = 12;
    table.values = test::floats(random.vector(48));
    table.absmax = 1;
  }
  make_center_norms(spec)->run(block);
  for (const WorkingLinear& table : block.linears) {
    for (std::size_t r = 0; r < table.rows; ++r) {
      double sum = 0;
      for (std::size_t c = 0; c < table.cols; ++c) sum += double{table.values[r * table.cols + c]};
      CHECK(std::abs(sum) < 1e-6);
    }
  }
}

TEST_CASE("centring is skipped with a reason if a norm writes the stream or the head is the embedding") {
  ModelSpec tied = test::small_layer_norm_spec();
  tied.tied_embeddings = true;
  ModelSpec post = test::small_layer_norm_spec();
  post.embedding_norm = true;
  for (const ModelSpec& spec : {tied, post}) {
    const auto pass = make_center_norms(spec);
    check_untouched(run_pass(spec, *pass));
    ModelSpec after = spec;
    pass->update_spec(after);
    CHECK(after.norm.kind == NormSpec::Kind::kLayer);
    CHECK(pass->note().starts_with("center_norms: the LayerNorms stay, because "));
  }
}

double spread(const WorkingLinear& linear, bool of_columns) {
  std::vector<double> ranges(of_columns ? linear.cols : linear.rows, 0.0);
  for (std::size_t i = 0; i < linear.values.size(); ++i) {
    double& range = ranges[of_columns ? i % linear.cols : i / linear.cols];
    range = std::max(range, std::abs(double{linear.values[i]}));
  }
  return *std::ranges::max_element(ranges) / *std::ranges::min_element(ranges);
}

TEST_CASE("equalizing moves powers of two between matrices and changes no product") {
  for (const bool gated : {true, false}) {
    for (const std::size_t kv_heads : {1, 2, 4}) {
      ModelSpec spec = test::small_spec();
      test::attention_of(spec).kv_heads = kv_heads;
      test::mlp_of(spec).gated = gated;
      test::mlp_of(spec).activation = gated ? Activation::kSilu : Activation::kRelu;
      test::attention_of(spec).output_gate = true;
      test::attention_of(spec).head_gates = gated;  // by element if not by head
      spec.biases = {.value = true, .up = true};
      const auto pass = make_equalize(spec);
      const Run run = run_pass(spec, *pass);
      // The factors are powers of two, so that the outputs agree to the last bits of F64.
      CHECK(test::relative_change(run.before.attention_output, run.after.attention_output) < 1e-13);
      CHECK(test::relative_change(run.before.mlp_output, run.after.mlp_output) < 1e-13);
      WorkingBlock original = run.original;
      WorkingBlock block = run.block;
      CHECK(spread(*block.find(Role::kUp), false) < 0.5 * spread(*original.find(Role::kUp), false));
      CHECK(statistics_of(run, Role::kDown).max == test::channel_statistics(run.after.mlp_hidden).max);
      CHECK(statistics_of(run, Role::kAttentionOutput).min == test::channel_statistics(run.after.attention_mixed).min);
      CHECK(run.note == "equalize: 2 pairs of matrices share their ranges");
    }
  }
}

TEST_CASE("up and down keep their ranges if a nonlinear activation is between them") {
  ModelSpec spec = test::small_spec();
  test::mlp_of(spec).gated = false;
  test::mlp_of(spec).activation = Activation::kSilu;
  const auto pass = make_equalize(spec);
  Run run = run_pass(spec, *pass);
  check_same_function(run);
  CHECK(run.block.find(Role::kUp)->values == run.original.find(Role::kUp)->values);
  CHECK(run.block.find(Role::kValue)->values != run.original.find(Role::kValue)->values);
}

TEST_CASE("each expert is equalized separately") {
  ModelSpec spec = test::small_spec();
  test::mlp_of(spec).experts = ExpertSpec{.count = 3, .per_token = 1, .size = 4, .shared_size = 5};
  Random random(3);
  WorkingBlock block = test::random_layer(spec, random);
  for (WorkingLinear& linear : block.linears) {
    if (linear.part == model::Part{Role::kExpertUp, 1}) {
      for (float& value : linear.values) value *= 64;
      linear.absmax *= 64;
    }
  }
  const WorkingBlock before = block;
  const auto pass = make_equalize(spec);
  pass->run(block);
  CHECK(pass->note() == "equalize: 5 pairs of matrices share their ranges");
  WorkingBlock original = before;
  CHECK(block.find(Role::kExpertUp, 1)->values != original.find(Role::kExpertUp, 1)->values);
  CHECK(block.find(Role::kRouter)->values == original.find(Role::kRouter)->values);
}

TEST_CASE("rotating values also rotates their bias and changes no product") {
  for (const std::size_t head_size : {8, 12}) {
    ModelSpec spec = test::small_spec();
    test::attention_of(spec).head_size = test::attention_of(spec).value_size = head_size;
    spec.biases.value = true;
    const auto pass = make_rotate_values(spec);
    Run run = run_pass(spec, *pass);
    check_same_function(run);
    CHECK(run.block.find(Role::kValue)->bias != run.original.find(Role::kValue)->bias);
    const ChannelStatistics expected = test::channel_statistics(run.after.attention_mixed);
    const ChannelStatistics& got = statistics_of(run, Role::kAttentionOutput);
    for (std::size_t c = 0; c < expected.mean.size(); ++c) {
      CHECK(got.mean[c] == doctest::Approx(expected.mean[c]).epsilon(1e-3));
    }
  }
}

TEST_CASE("values are also rotated before a gate with one value per head") {
  ModelSpec spec = test::small_spec();
  test::attention_of(spec).output_gate = test::attention_of(spec).head_gates = true;
  spec.biases.value = spec.biases.output_gate = true;
  const auto pass = make_rotate_values(spec);
  Run run = run_pass(spec, *pass);
  check_same_function(run);
  CHECK(run.block.find(Role::kValue)->bias != run.original.find(Role::kValue)->bias);
  CHECK(run.block.find(Role::kOutputGate)->values == run.original.find(Role::kOutputGate)->values);
}

TEST_CASE("before an elementwise gate values are not rotated") {
  ModelSpec spec = test::small_spec();
  test::attention_of(spec).output_gate = true;
  const auto pass = make_rotate_values(spec);
  check_untouched(run_pass(spec, *pass));
  CHECK(pass->note() ==
        "rotate_values: nothing is rotated, because the output gate multiplies each channel of a head "
        "by a factor of its own");
}

}  // namespace
}  // namespace ballast::quant
