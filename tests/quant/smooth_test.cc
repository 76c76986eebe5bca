#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "error_message.h"
#include "fixed_recipe.h"
#include "kernels/matrix/quantized_matrix.h"
#include "layers.h"
#include "pass_run.h"
#include "quant/passes/passes.h"
#include "quant/quantize/rounding_error.h"
#include "quant/rounding/rounding.h"
#include "working_layer.h"

namespace ballast::quant {
namespace {

using model::Role;
using test::check_untouched;
using test::Random;
using test::Run;
using test::run_pass;
using test::statistics_of;

constexpr const char* kScheme = "w4a8";

Recipe smoothing(const char* scheme, double outliers = 0) {
  Recipe recipe = test::fixed_recipe(scheme);
  recipe.smooth = true;
  recipe.outlier_fraction = outliers;
  return recipe;
}

/// Sets the format of all linears, and makes a few channels of every input large.
auto prepared(const WeightFormat& format, ActivationType activations = ActivationType::kInt16) {
  return [format, activations](WorkingBlock& block) {
    for (WorkingLinear& linear : block.linears) {
      linear.format = format;
      linear.activations = activations;
    }
    for (WorkingNorm& norm : block.norms) norm.gain[3] *= 40;
  };
}

TEST_CASE("smoothing changes no product, in every layout and grouping, with a gate or without") {
  for (const BlockLayout layout : {BlockLayout::kPreNorm, BlockLayout::kParallel, BlockLayout::kParallelShared}) {
    for (const std::size_t kv_heads : {1, 2, 4}) {
      for (const bool gated : {false, true}) {
        for (const char* format : {"f32", "int4-g32", "int8-g64"}) {
          ModelSpec spec = test::small_spec();
          spec.layout = layout;
          test::attention_of(spec).kv_heads = kv_heads;
          test::attention_of(spec).output_gate = gated;
          spec.biases = {.value = true, .up = true};
          const auto pass = make_smooth(smoothing(kScheme), spec);
          const Run run = run_pass(spec, *pass, prepared(parse_format(format)));
          test::check_same_function(run);
          const ChannelStatistics expected = test::channel_statistics(run.after.mlp_hidden);
          const ChannelStatistics& got = statistics_of(run, Role::kDown);
          for (std::size_t c = 0; c < expected.max.size(); ++c) {
            CHECK(got.max[c] == doctest::Approx(expected.max[c]).epsilon(1e-5));
            CHECK(got.mean_square[c] == doctest::Approx(expected.mean_square[c]).epsilon(1e-5));
          }
        }
      }
    }
  }
}

TEST_CASE("biases that stay in a LayerNorm are smoothed with its gain") {
  const ModelSpec spec = test::small_layer_norm_spec();
  const auto pass = make_smooth(smoothing(kScheme), spec);
  const Run run = run_pass(spec, *pass, prepared(parse_format("f32")));
  test::check_same_function(run);
  CHECK(run.block.norms[0].gain != run.original.norms[0].gain);
  CHECK(run.block.norms[0].bias != run.original.norms[0].bias);
}

TEST_CASE("outputs of a post-norm, and up before an activation, are not smoothed") {
  ModelSpec spec = test::small_layer_norm_spec();
  spec.layout = BlockLayout::kPostNorm;
  const auto pass = make_smooth(smoothing(kScheme), spec);
  Run run = run_pass(spec, *pass, prepared(parse_format("f32")));
  test::check_same_function(run);
  for (std::size_t i = 0; i < run.block.norms.size(); ++i) {
    CHECK(run.block.norms[i].gain == run.original.norms[i].gain);
  }
  CHECK(run.block.find(Role::kUp)->values == run.original.find(Role::kUp)->values);
  CHECK(run.block.find(Role::kValue)->values != run.original.find(Role::kValue)->values);
}

TEST_CASE("linears in 16 bits are not smoothed") {
  const ModelSpec spec = test::small_spec();
  const auto pass = make_smooth(smoothing("bf16"), spec);
  check_untouched(run_pass(spec, *pass, prepared(parse_format("bf16"))));
  CHECK(pass->note().starts_with("smooth: 0 of "));
}

/// Returns the expected error of all inputs of a block.
double error_of(WorkingBlock& block, const Recipe& recipe) {
  double error = 0;
  for (const WorkingInput& input : block.inputs) {
    std::vector<WeightRowSample> readers;
    for (const std::size_t reader : input.readers) readers.push_back(rounding_error_sample(block.linears[reader]));
    error += rounding_error(readers, input.statistics->channels, recipe);
  }
  return error;
}

TEST_CASE("smoothing does not increase the expected error") {
  for (const double outliers : {0.0, 0.1}) {
    for (const char* scheme : {"w8a8", "w4a16", "w4a8"}) {
      CAPTURE(scheme);
      const Recipe recipe = smoothing(scheme, outliers);
      const ModelSpec spec = test::small_spec();
      const auto pass = make_smooth(recipe, spec);
      Run run = run_pass(spec, *pass, prepared(recipe.linears, recipe.activations));
      const double before = error_of(run.original, recipe);
      const double after = error_of(run.block, recipe);
      CHECK(after <= before);
      if (outliers == 0) CHECK(after < 0.8 * before);
    }
  }
}

/// Rounds to INT8 and back, with a scale per group.
test::Vector rounded_in_groups(const test::Vector& token, std::size_t group_size) {
  test::Vector rounded(token.size());
  for (std::size_t begin = 0; begin < token.size(); begin += group_size) {
    double largest = 0;
    for (std::size_t c = begin; c < begin + group_size; ++c) largest = std::max(largest, std::abs(token[c]));
    const double step = largest / 127;
    for (std::size_t c = begin; c < begin + group_size; ++c) rounded[c] = step * std::nearbyint(token[c] / step);
  }
  return rounded;
}

TEST_CASE("the expected error is that of rounded products, within a factor of two") {
  for (const char* scheme : {"w8a8", "w4a16", "w4a8"}) {
    CAPTURE(scheme);
    const Recipe recipe = smoothing(scheme);
    Random random(8);
    WorkingLinear linear;
    linear.rows = 96;
    linear.cols = 128;
    linear.values = test::floats(random.vector(linear.rows * linear.cols));
    linear.absmax = 1;
    linear.format = recipe.linears;
    linear.activations = recipe.activations;
    const test::Vector sizes = random.vector(linear.cols, 0.2, 2);
    test::Tokens tokens = random.tokens(200, linear.cols);
    for (test::Vector& token : tokens) token = test::times(token, sizes);

    const kernels::QuantizedMatrix matrix =
        round_to_nearest(linear.values, linear.rows, linear.cols, linear.format, {}, linear.absmax).packed();
    double measured = 0;
    std::vector<float> row(linear.cols);
    for (const test::Vector& token : tokens) {
      const test::Vector rounded =
          recipe.activations == ActivationType::kInt8 ? rounded_in_groups(token, linear.format.group_size) : token;
      for (std::size_t r = 0; r < linear.rows; ++r) {
        matrix.decode_row(r, row.data());
        double difference = 0;
        for (std::size_t c = 0; c < linear.cols; ++c) {
          difference += double{linear.values[r * linear.cols + c]} * token[c] - double{row[c]} * rounded[c];
        }
        measured += difference * difference / static_cast<double>(tokens.size());
      }
    }
    const std::vector<WeightRowSample> readers = {rounding_error_sample(linear)};
    const double expected = rounding_error(readers, test::channel_statistics(tokens), recipe);
    CHECK(expected > 0.5 * measured);
    CHECK(expected < 2 * measured);
  }
}

TEST_CASE("smoothing without statistics is refused") {
  const ModelSpec spec = test::small_spec();
  Random random(1);
  WorkingBlock block = test::random_layer(spec, random);
  const auto pass = make_smooth(smoothing(kScheme), spec);
  CHECK(test::error_message([&] { pass->run(block); }) == "smooth: needs the statistics of a calibration (--stats)");
}

}  // namespace
}  // namespace ballast::quant
