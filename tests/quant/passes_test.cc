#include "quant/passes/passes.h"
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "error_message.h"
#include "fixed_recipe.h"
#include "quant/search/format_chooser.h"

namespace ballast::quant {
namespace {

using test::Contains;
using test::error_message;

constexpr std::size_t kLinearRows = 3;
constexpr std::size_t kLinearCols = 8;

ChannelStatistics statistics_of(const std::vector<float>& inputs, std::size_t channels) {
  ChannelStatistics statistics;
  const std::size_t rows = inputs.size() / channels;
  for (std::size_t c = 0; c < channels; ++c) {
    float low = inputs[c];
    float high = inputs[c];
    double sum = 0;
    double squares = 0;
    for (std::size_t r = 0; r < rows; ++r) {
      const float value = inputs[r * channels + c];
      low = std::min(low, value);
      high = std::max(high, value);
      sum += value;
      squares += value * value;
    }
    statistics.min.push_back(low);
    statistics.max.push_back(high);
    statistics.mean.push_back(static_cast<float>(sum / static_cast<double>(rows)));
    statistics.mean_square.push_back(static_cast<float>(squares / static_cast<double>(rows)));
    statistics.ordinary_absmax.push_back(std::max(std::abs(low), std::abs(high)));
  }
  return statistics;
}

std::vector<float> product(const WorkingLinear& linear, const float* input) {
  std::vector<float> output(linear.rows);
  for (std::size_t r = 0; r < linear.rows; ++r) {
    double sum = 0;
    for (std::size_t c = 0; c < linear.cols; ++c) sum += double{linear.values[r * linear.cols + c]} * double{input[c]};
    output[r] = static_cast<float>(sum);
  }
  return output;
}

// Values after a norm without its gain, two tokens.
const std::vector<float> kNormalized = {1, -2, 0.5F, 3, -1, 0.25F, 2, -0.75F, -0.5F, 1, 4, -3, 2, 1, -1, 0.5F};
const std::vector<float> kGain = {2, 0.5F, -1, 10, 0.1F, 1, 3, 0};

std::vector<float> with_gain() {
  std::vector<float> values = kNormalized;
  for (std::size_t i = 0; i < values.size(); ++i) values[i] *= kGain[i % kLinearCols];
  return values;
}

/// Returns two linears that read one norm, and one with another input.
WorkingBlock sample_block() {
  WorkingBlock block;
  WorkingNorm& norm = block.norms.emplace_back();
  norm.name = "norm";
  norm.gain = kGain;
  for (const char* name : {"q", "k", "o"}) {
    WorkingLinear linear;
    linear.name = name;
    linear.rows = kLinearRows;
    linear.cols = kLinearCols;
    for (std::size_t i = 0; i < kLinearRows * kLinearCols; ++i)
      linear.values.push_back(std::sin(static_cast<float>(i + 1)));
    linear.absmax = 1;
    linear.format = {.bits = 8, .group_size = 32};
    linear.activations = ActivationType::kInt8;
    block.linears.push_back(std::move(linear));
  }
  LinearInputStatistics statistics{.linears = {"q", "k"}, .channels = statistics_of(with_gain(), kLinearCols)};
  block.inputs.push_back({.readers = {0, 1}, .norm = 0, .statistics = statistics});
  statistics.linears = {"o"};
  block.inputs.push_back({.readers = {2}, .norm = {}, .statistics = statistics});
  return block;
}

TEST_CASE("folding a norm leaves every product unchanged and its gain at 1") {
  WorkingBlock block = sample_block();
  const WorkingBlock before = block;
  const auto pass = make_fold_norms();
  pass->run(block);
  CHECK(block.norms[0].gain == std::vector<float>(kLinearCols, 1.0F));
  const std::vector<float> scaled = with_gain();
  for (const std::size_t reader : {0, 1}) {
    for (std::size_t token = 0; token < 2; ++token) {
      const std::vector<float> expected = product(before.linears[reader], scaled.data() + token * kLinearCols);
      const std::vector<float> got = product(block.linears[reader], kNormalized.data() + token * kLinearCols);
      for (std::size_t r = 0; r < kLinearRows; ++r) CHECK(got[r] == doctest::Approx(expected[r]).epsilon(1e-5));
    }
    for (const float value : block.linears[reader].values) CHECK(std::abs(value) <= block.linears[reader].absmax);
  }
  CHECK(block.linears[2].values == before.linears[2].values);
  CHECK(pass->note() == "fold_norms: 1 norm gains folded into 2 linears");
}

TEST_CASE("folding a norm rescales only the statistics of its output") {
  WorkingBlock block = sample_block();
  make_fold_norms()->run(block);
  const ChannelStatistics& got = block.inputs[0].statistics->channels;
  const ChannelStatistics expected = statistics_of(kNormalized, kLinearCols);
  for (std::size_t c = 0; c < kLinearCols; ++c) {
    if (kGain[c] == 0) continue;  // a gain of 0 hides the channel
    CHECK(got.min[c] == doctest::Approx(expected.min[c]));
    CHECK(got.max[c] == doctest::Approx(expected.max[c]));
    CHECK(got.mean[c] == doctest::Approx(expected.mean[c]));
    CHECK(got.mean_square[c] == doctest::Approx(expected.mean_square[c]));
    CHECK(got.ordinary_absmax[c] == doctest::Approx(expected.ordinary_absmax[c]));
  }
  CHECK(block.inputs[1].statistics->channels.max == statistics_of(with_gain(), kLinearCols).max);
}

TEST_CASE("a large channel is kept in 16 bits for all readers of an input") {
  WorkingBlock block = sample_block();
  make_split_outliers(0.1)->run(block);  // 0.8 channels: 1
  for (const std::size_t reader : {0, 1}) CHECK(block.linears[reader].outlier_columns == std::vector<std::int32_t>{3});
  block = sample_block();
  make_split_outliers(0.25)->run(block);
  CHECK(block.linears[0].outlier_columns == std::vector<std::int32_t>{3, 6});
}

TEST_CASE("with 16-bit activations the energy selects outlier columns, and 8-bit weights have none") {
  WorkingBlock block = sample_block();
  for (WorkingLinear& linear : block.linears) linear.activations = ActivationType::kInt16;
  block.linears[0].format = {.bits = 4, .group_size = 32};
  ChannelStatistics& channels = block.inputs[0].statistics->channels;
  channels.max[3] = 1000;  // in one token only
  channels.mean_square[5] = 10000;
  make_split_outliers(0.1)->run(block);
  CHECK(block.linears[0].outlier_columns == std::vector<std::int32_t>{5});
  CHECK(block.linears[2].outlier_columns.empty());  // 8 bits
}

TEST_CASE("linears that stay in floats have no outlier columns") {
  WorkingBlock block = sample_block();
  for (WorkingLinear& linear : block.linears) linear.format = {.kind = WeightFormat::Kind::kBF16};
  block.inputs[0].statistics.reset();
  make_split_outliers(0.1)->run(block);
  for (const WorkingLinear& linear : block.linears) CHECK(linear.outlier_columns.empty());
}

TEST_CASE("selecting outlier columns without statistics is refused") {
  WorkingBlock block = sample_block();
  block.inputs[0].statistics.reset();
  CHECK(error_message([&] { make_split_outliers(0.1)->run(block); }) ==
        Contains("split_outliers: needs the statistics of a calibration"));
}

TEST_CASE("a plan has the formats, columns and statistics of the run") {
  Recipe recipe = test::fixed_recipe("w4a8");
  recipe.smooth = false;  // with smoothing a plan knows only the number of columns
  WorkingBlock run = sample_block();
  WorkingBlock plan = sample_block();
  for (WorkingLinear& linear : plan.linears) {
    linear.values.clear();
    linear.absmax = 0;
  }
  for (WorkingBlock* block : {&run, &plan}) {
    ModelSpec spec;
    FormatChooser(recipe, spec).choose(*block, 1);
    for (const auto& pass : make_passes(recipe, spec)) pass->run(*block);
  }
  for (std::size_t i = 0; i < run.linears.size(); ++i) {
    CHECK(plan.linears[i].format == run.linears[i].format);
    CHECK(plan.linears[i].bias.size() == run.linears[i].bias.size());
    CHECK(plan.linears[i].outlier_columns == run.linears[i].outlier_columns);
  }
  for (std::size_t i = 0; i < run.inputs.size(); ++i) {
    CHECK(plan.inputs[i].statistics->channels.max == run.inputs[i].statistics->channels.max);
  }
}

TEST_CASE("the first override that matches a name determines its format") {
  Recipe recipe = test::fixed_recipe("w4a16");
  recipe.overrides = {{"\\.1\\..*down", parse_format("int8-g32")}, {"down_proj$", parse_format("bf16")}};
  recipe.embedding = parse_format("f16");
  recipe.head = parse_format("int8-channel");
  WorkingBlock block;
  const auto add = [&](model::Role role, const char* name) {
    WorkingLinear& linear = block.linears.emplace_back();
    linear.part.role = role;
    linear.name = name;
  };
  add(model::Role::kDown, "model.layers.1.mlp.down_proj");
  add(model::Role::kDown, "model.layers.2.mlp.down_proj");
  add(model::Role::kUp, "model.layers.2.mlp.up_proj");
  add(model::Role::kEmbedding, "model.embed_tokens");
  add(model::Role::kHead, "lm_head");
  FormatChooser(recipe, ModelSpec{}).choose(block, 1);
  std::vector<std::string> formats;
  for (const WorkingLinear& linear : block.linears) formats.push_back(format_name(linear.format));
  CHECK(formats == std::vector<std::string>{"int8-g32", "bf16", "int4-g32-asym", "f16", "int8-channel"});
}

TEST_CASE("an invalid regular expression in a recipe is refused, also without a file") {
  Recipe recipe = test::fixed_recipe("w4a16");
  recipe.overrides = {{"(", parse_format("bf16")}};
  CHECK(error_message([&] { FormatChooser(recipe, ModelSpec{}); }) == Contains("'(' is not a regular expression"));
}

TEST_CASE("a format for a matrix that does not exist is refused by its pattern") {
  Recipe recipe = test::fixed_recipe("w4a16");
  recipe.overrides = {{"down_proj", parse_format("bf16")}, {"downproj", parse_format("f16")}};
  FormatChooser chooser(recipe, ModelSpec{});
  WorkingBlock block;
  block.linears.emplace_back().name = "model.layers.0.mlp.down_proj";
  chooser.choose(block, 1);
  CHECK(block.linears.front().format == parse_format("bf16"));
  CHECK(error_message([&] { chooser.check_overrides(); }) ==
        Contains("format for 'downproj': no matrix has such a name"));
}

}  // namespace
}  // namespace ballast::quant
