#include "quant/measure/measure_inputs.h"

#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "model/model.h"
#include "quant/block/runnable_block.h"
#include "tiny_model.h"

namespace ballast::quant {
namespace {

constexpr std::size_t kLength = 8;

double mean_square(const float* values, std::size_t size) {
  return std::inner_product(values, values + size, values, 0.0) / static_cast<double>(size);
}

/// Runs one sample through a block, in place; the inputs' rows are valid until the next sample.
void run_sample(const ModelSpec& spec, const model::BlockWeights& weights, std::size_t layer, float* hidden,
                model::BlockActivations& activations) {
  const model::RopeTable rope(spec);
  model::RopeAngles angles;
  model::SequenceState state(spec, layer, {.type = kernels::CacheType::kF32, .capacity = kLength});
  const model::BatchSequence batch[] = {{kLength, &state}};
  rope.look_up(batch, angles);
  model::forward_block(spec, weights, layer, angles, batch, 0, hidden, activations, {.record_inputs = true});
}

TEST_CASE("before a linear that writes the stream, a token counts by the inverse of its mean square after the block") {
  for (const std::string golden : {"llama3", "deepseek_v3"}) {  // the second has experts, which read some of the tokens
    CAPTURE(golden);
    const model::ModelSource source(test::golden_model(golden));
    const ModelSpec& spec = source.spec();
    const std::size_t layer = spec.layers.size() - 1;
    const WorkingBlockLoader loader(source, nullptr, {});
    WorkingBlock block = loader.load(layer + 1, true);
    const model::BlockWeights weights = model::assemble_block(spec, layer, runnable_parts(block, spec, run_with_int16));

    std::vector<int> ids(2 * kLength);
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int>(i * 7 % 31);
    const WorkingBlock front = loader.load(0, true);
    samples::BlockRunner runner(spec, kLength);
    runner.embed(runnable_embedding(front, spec, run_with_int16), {ids, kLength});
    for (float& value : std::span(runner.rows().hidden).first(spec.hidden_size)) value *= 1000;  // a massive token
    std::vector<float> hidden = runner.rows().hidden;
    measure_inputs(runner, weights, spec, layer, {.samples = 2},
                   {.then = samples::BlockRunner::Then::kAdvance, .shrink = false}, block);

    std::vector<std::vector<double>> energies(block.inputs.size());
    for (std::size_t sample = 0; sample < 2; ++sample) {
      float* rows = hidden.data() + sample * kLength * spec.hidden_size;
      model::BlockActivations activations;
      run_sample(spec, weights, layer, rows, activations);
      for (const model::LinearInput& input : activations.inputs) {
        for (std::size_t i = 0; i < block.inputs.size(); ++i) {
          const WorkingLinear& reader = block.linears[block.inputs[i].readers.front()];
          if (reader.part != input.readers.front()) continue;
          if (input.count > 0) energies[i].resize(reader.cols);
          for (std::size_t row = 0; row < input.count; ++row) {
            const float* token = rows + (input.tokens.empty() ? row : input.tokens[row]) * spec.hidden_size;
            const double weight = writes_stream(reader.part.role) ? 1 / mean_square(token, spec.hidden_size) : 1;
            for (std::size_t c = 0; c < reader.cols; ++c) {
              energies[i][c] += weight * std::pow(double{input.rows[row * reader.cols + c]}, 2);
            }
          }
        }
      }
    }
    CHECK(hidden == runner.rows().hidden);
    for (std::size_t i = 0; i < block.inputs.size(); ++i) {
      CAPTURE(block.linears[block.inputs[i].readers.front()].name);
      REQUIRE((block.inputs[i].moments != nullptr) == !energies[i].empty());
      if (energies[i].empty()) continue;
      const Hessian& moments = *block.inputs[i].moments;
      for (std::size_t c = 0; c < moments.cols; ++c) {
        CHECK(moments.values[c * moments.cols + c] == doctest::Approx(energies[i][c]).epsilon(1e-4));
      }
    }
  }
}

/// Expected drift of the first linears' input, [hidden][hidden], and of the stream before down, [hidden][cols]; and the
/// mean squares of the input of the attention's output projection, by channel.
struct ExpectedDrift {
  std::vector<double> of_queries;
  std::vector<double> of_down;
  std::vector<double> output_energies;
};

/// Runs two samples through both versions of a block, in place.
ExpectedDrift expected_drift(const ModelSpec& spec, const model::BlockWeights& weights, std::size_t cols,
                             std::vector<float>& original, std::vector<float>& rounded) {
  const std::size_t size = spec.hidden_size;
  ExpectedDrift expected{std::vector<double>(size * size), std::vector<double>(size * cols), {}};
  for (std::size_t first = 0; first < original.size(); first += kLength * size) {
    float* rows[] = {original.data() + first, rounded.data() + first};
    model::BlockActivations activations[2];
    for (std::size_t i = 0; i < 2; ++i) run_sample(spec, weights, 0, rows[i], activations[i]);
    const float* queries[] = {activations[0].inputs.front().rows, activations[1].inputs.front().rows};
    const float* down = activations[1].inputs.back().rows;
    const model::LinearInput& output = activations[1].inputs[1];
    expected.output_energies.resize(output.cols);
    for (std::size_t t = 0; t < kLength; ++t) {
      const double weight = 1 / mean_square(rows[0] + t * size, size);  // the weight of a token is that in the original
      for (std::size_t c = 0; c < output.cols; ++c) {
        expected.output_energies[c] += weight * std::pow(double{output.rows[t * output.cols + c]}, 2);
      }
      for (std::size_t d = 0; d < size; ++d) {
        const double query = double{queries[0][t * size + d]} - double{queries[1][t * size + d]};
        for (std::size_t c = 0; c < size; ++c) {
          expected.of_queries[c * size + d] += double{queries[1][t * size + c]} * query;
        }
        const double drift = weight * (double{rows[0][t * size + d]} - double{rows[1][t * size + d]});
        for (std::size_t c = 0; c < cols; ++c) expected.of_down[d * cols + c] += drift * double{down[t * cols + c]};
      }
    }
  }
  return expected;
}

TEST_CASE("drift from the original is measured for the first inputs, and before down for the whole stream") {
  const model::ModelSource source(test::golden_model("llama3"));
  const ModelSpec& spec = source.spec();
  const WorkingBlockLoader loader(source, nullptr, {});
  WorkingBlock block = loader.load(1, true);
  for (WorkingLinear& linear : block.linears) linear.format = {.bits = 4, .group_size = 32};
  const model::BlockWeights weights = model::assemble_block(spec, 0, runnable_parts(block, spec, run_with_int16));
  std::vector<int> ids(2 * kLength);
  std::iota(ids.begin(), ids.end(), 3);
  const WorkingBlock front = loader.load(0, true);
  samples::BlockRunner original(spec, kLength);
  original.embed(runnable_embedding(front, spec, run_with_int16), {ids, kLength});
  samples::BlockRunner runner(spec, kLength);
  runner.resize({ids, kLength});
  runner.rows() = original.rows();
  for (std::size_t i = 0; i < runner.rows().hidden.size(); ++i) {
    runner.rows().hidden[i] *= 1 + 0.1F * static_cast<float>(i % 7);
  }
  std::vector<float> hidden[] = {original.rows().hidden, runner.rows().hidden};
  const auto measure = [&](MeasureOptions::Inputs inputs) {
    measure_inputs(runner, weights, spec, 0, {.samples = 2}, {.inputs = inputs, .original = &original}, block);
  };
  measure(MeasureOptions::Inputs::kBeforeDown);
  WorkingBlock whole = loader.load(1, true);
  measure_inputs(runner, weights, spec, 0, {.samples = 2}, {}, whole);
  for (std::size_t i = 0; i < block.inputs.size(); ++i) {
    const WorkingInput& input = block.inputs[i];
    const WorkingLinear& reader = block.linears[input.readers.front()];
    CAPTURE(reader.name);
    const bool of_down = reader.part.role == model::Role::kDown;
    CHECK((input.drift != nullptr) == !of_down);
    REQUIRE((input.moments != nullptr) == !of_down);
    // The result does not depend on whether the MLP ran.
    if (!writes_stream(reader.part.role)) CHECK(input.moments->values == whole.inputs[i].moments->values);
  }
  REQUIRE(block.linears[block.inputs[1].readers.front()].part.role == model::Role::kAttentionOutput);
  const std::shared_ptr<const Hessian> output_moments = block.inputs[1].moments;
  const std::vector<float> query_drift = block.inputs.front().drift->values;
  block.forget_moments();
  measure(MeasureOptions::Inputs::kOfDown);
  const WorkingInput& down_input = block.inputs.back();
  REQUIRE(block.linears[down_input.readers.front()].part.role == model::Role::kDown);
  REQUIRE(down_input.drift != nullptr);
  CHECK(block.inputs.front().drift == nullptr);

  const ExpectedDrift expected =
      expected_drift(spec, weights, block.linears[down_input.readers.front()].cols, hidden[0], hidden[1]);
  CHECK(original.rows().hidden == hidden[0]);
  for (std::size_t c = 0; c < output_moments->cols; ++c) {
    REQUIRE(output_moments->values[c * (output_moments->cols + 1)] ==
            doctest::Approx(expected.output_energies[c]).epsilon(1e-4));
  }
  for (std::size_t i = 0; i < expected.of_queries.size(); ++i) {
    REQUIRE(query_drift[i] == doctest::Approx(expected.of_queries[i]).epsilon(1e-3).scale(1));
  }
  for (std::size_t i = 0; i < expected.of_down.size(); ++i) {
    REQUIRE(down_input.drift->values[i] == doctest::Approx(expected.of_down[i]).epsilon(1e-3).scale(1));
  }
}

}  // namespace
}  // namespace ballast::quant
