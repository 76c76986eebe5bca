#include <cmath>

#include "kernel_cases.h"
#include "kernels/recurrent/causal_convolution.h"
#include "kernels/recurrent/delta_rule.h"
#include "kernels/recurrent/state_space.h"

namespace ballast::kernels {
namespace {

struct Convolution {
  static constexpr std::size_t kStrideGap = 3;

  std::size_t tokens, channels, width;
  bool biased;
  std::vector<float> weights = random_floats(width * channels, 1);
  std::vector<float> src = random_floats(tokens * (channels + kStrideGap), 2);
  std::vector<float> history = random_floats((width - 1) * channels, 3);
  std::vector<float> bias = random_floats(channels, 4);
  std::vector<float> dst = std::vector<float>(tokens * channels, kUntouched);

  /// Returns the run over the tokens from `first` on.
  ConvolutionRun run(std::size_t first, std::size_t count) {
    return {.tokens = count,
            .channels = channels,
            .width = width,
            .weights = weights.data(),
            .bias = biased ? bias.data() : nullptr,
            .src = src.data() + first * (channels + kStrideGap),
            .src_stride = channels + kStrideGap,
            .history = history.data(),
            .dst = dst.data() + first * channels,
            .dst_stride = channels};
  }
};

TEST_CASE("a causal convolution agrees with the reference on every target, whole and cut anywhere") {
  for (const std::size_t channels : {1, 7, 16, 37, 130}) {
    for (const std::size_t width : {1, 3, 4}) {
      for (const std::size_t tokens : {1, 2, 9}) {
        const bool biased = tokens != 2;
        Convolution expected = {tokens, channels, width, biased};
        reference::causal_convolution(expected.run(0, tokens));
        for_every_target([&] {
          Convolution whole = {tokens, channels, width, biased};
          causal_convolution(whole.run(0, tokens), 0, channels / 2);
          causal_convolution(whole.run(0, tokens), channels / 2, channels);
          CHECK(relative_error(whole.dst, expected.dst) <= 1e-6);
          CHECK(whole.history == expected.history);
          for (std::size_t cut = 0; cut <= tokens; ++cut) {
            Convolution pieces = {tokens, channels, width, biased};
            causal_convolution(pieces.run(0, cut), 0, channels);
            causal_convolution(pieces.run(cut, tokens - cut), 0, channels);
            CHECK(pieces.dst == whole.dst);
            CHECK(pieces.history == whole.history);
          }
        });
      }
    }
  }
}

struct Delta {
  std::size_t tokens, key_size, value_size;
  std::size_t stride = 2 * key_size + value_size + 1;
  std::vector<float> rows = normalized_rows();
  std::vector<float> gates = random_gates();
  std::vector<float> memory = random_floats(key_size * value_size, 3);
  std::vector<float> out = std::vector<float>(tokens * value_size, kUntouched);

  DeltaRun run(std::size_t first, std::size_t count) {
    const float* row = rows.data() + first * stride;
    return {.tokens = count,
            .key_size = key_size,
            .value_size = value_size,
            .queries = row,
            .keys = row + key_size,
            .values = row + 2 * key_size,
            .stride = stride,
            .decays = gates.data() + first * 2,
            .strengths = gates.data() + first * 2 + 1,
            .gate_stride = 2,
            .memory = memory.data(),
            .out = out.data() + first * value_size,
            .out_stride = value_size};
  }

 private:
  std::vector<float> normalized_rows() const {
    std::vector<float> made = random_floats(tokens * stride, 1);
    for (std::size_t part = 0; part < 2 * tokens; ++part) {
      float* vector = made.data() + part / 2 * stride + part % 2 * key_size;
      float squares = 0;
      for (std::size_t i = 0; i < key_size; ++i) squares += vector[i] * vector[i];
      for (std::size_t i = 0; i < key_size; ++i) vector[i] /= std::sqrt(squares) + 1e-6F;
    }
    return made;
  }
  std::vector<float> random_gates() const {
    std::vector<float> made = random_floats(2 * tokens, 2);
    for (float& value : made) value = 1.0F / (1.0F + std::exp(-3.0F * value));
    return made;
  }
};

/// Compares a recurrence over all tokens of a fresh case with the reference, and a recurrence in two pieces with that.
template <typename Case, typename Run>
void check_whole_and_cut(const Case& fresh, const Case& expected, const Run& run, double tolerance) {
  Case whole = fresh;
  run(whole.run(0, fresh.tokens));
  CHECK(relative_error(whole.out, expected.out) <= tolerance);
  CHECK(relative_error(whole.memory, expected.memory) <= tolerance);
  for (const std::size_t cut : {std::size_t{0}, std::size_t{1}, fresh.tokens / 2}) {
    Case pieces = fresh;
    run(pieces.run(0, cut));
    run(pieces.run(cut, fresh.tokens - cut));
    CHECK(pieces.out == whole.out);
    CHECK(pieces.memory == whole.memory);
  }
}

TEST_CASE("the delta rule agrees with the reference on every target, whole and cut anywhere") {
  for (const std::size_t key_size : {1, 6, 32}) {
    for (const std::size_t value_size : {1, 5, 16, 40, 128}) {
      for (const std::size_t tokens : {1, 2, 70}) {
        Delta expected = {tokens, key_size, value_size};
        reference::delta_rule(expected.run(0, tokens));
        for_every_target([&] { check_whole_and_cut(Delta{tokens, key_size, value_size}, expected, delta_rule, 2e-5); });
      }
    }
  }
}

struct StateSpace {
  std::size_t tokens, state_size, head_size;
  std::size_t stride = 2 * state_size + head_size + 1;
  std::vector<float> rows = random_floats(tokens * stride, 1);
  std::vector<float> gates = random_gates();
  std::vector<float> memory = random_floats(state_size * head_size, 3);
  std::vector<float> out = std::vector<float>(tokens * head_size, kUntouched);

  StateSpaceRun run(std::size_t first, std::size_t count) {
    const float* row = rows.data() + first * stride;
    return {.tokens = count,
            .state_size = state_size,
            .head_size = head_size,
            .values = row + 2 * state_size,
            .keys = row,
            .queries = row + state_size,
            .stride = stride,
            .decays = gates.data() + first * 2,
            .steps = gates.data() + first * 2 + 1,
            .gate_stride = 2,
            .skip = -0.75F,
            .memory = memory.data(),
            .out = out.data() + first * head_size,
            .out_stride = head_size};
  }

 private:
  /// Returns decays between 0 and 1 and steps, as a model has them: exp(-step).
  std::vector<float> random_gates() const {
    std::vector<float> made = random_floats(2 * tokens, 2);
    for (std::size_t t = 0; t < tokens; ++t) {
      made[2 * t + 1] = std::abs(made[2 * t + 1]);
      made[2 * t] = std::exp(-made[2 * t + 1]);
    }
    return made;
  }
};

TEST_CASE("the recurrence of Mamba 2 agrees with the reference on every target, whole and cut anywhere") {
  for (const std::size_t state_size : {1, 6, 33, 128}) {
    for (const std::size_t head_size : {1, 5, 16, 40, 64}) {
      for (const std::size_t tokens : {1, 2, 70}) {
        StateSpace expected = {tokens, state_size, head_size};
        reference::state_space(expected.run(0, tokens));
        for_every_target(
            [&] { check_whole_and_cut(StateSpace{tokens, state_size, head_size}, expected, state_space, 1e-5); });
      }
    }
  }
}

}  // namespace
}  // namespace ballast::kernels
