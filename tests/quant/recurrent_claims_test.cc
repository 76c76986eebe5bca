// Every claim of docs/folds.md about Mamba 2 and short convolutions, in both directions.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <utility>

#include "fold_claims.h"

namespace ballast::test {
namespace {

constexpr std::size_t kChannels = 6, kState = 3, kTaps = 3;
enum class NormPlace { kBeforeGate, kAfterGate };

/// One head, without the norm of its input.
struct Mamba {
  Matrix gate, value, key, query, step, output;
  Vector value_bias, value_tap_bias, step_bias, gain;
  Matrix taps;  ///< of the values, [channels][taps]
  double rate, skip;
  NormPlace place;
};

Mamba random_mamba(Random& random, NormPlace place) {
  return {.gate = random.matrix(kChannels, kHidden),
          .value = random.matrix(kChannels, kHidden),
          .key = random.matrix(kState, kHidden),
          .query = random.matrix(kState, kHidden),
          .step = random.matrix(1, kHidden),
          .output = random.matrix(kHidden, kChannels),
          .value_bias = Vector(kChannels, 0.0),
          .value_tap_bias = random.vector(kChannels),
          .step_bias = random.vector(1),
          .gain = random.vector(kChannels, 0.2, 3),
          .taps = random.matrix(kChannels, kTaps),
          .rate = random.vector(1, 0.1, 2)[0],
          .skip = random.vector(1)[0],
          .place = place};
}

double silu(double x) {
  return x / (1 + std::exp(-x));
}

Vector all_silu(Vector x) {
  for (double& value : x) value = silu(value);
  return x;
}

Tokens run(const Mamba& mamba, const Tokens& tokens) {
  Tokens values, outputs;
  Matrix memory{kChannels, kState, Vector(kChannels * kState, 0.0)};
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    values.push_back(affine(mamba.value, tokens[t], mamba.value_bias));
    const Vector key = all_silu(affine(mamba.key, tokens[t]));
    const Vector query = all_silu(affine(mamba.query, tokens[t]));
    const double step = std::log1p(std::exp(affine(mamba.step, tokens[t], mamba.step_bias)[0]));
    Vector out(kChannels);
    for (std::size_t c = 0; c < kChannels; ++c) {
      double convolved = mamba.value_tap_bias[c];
      for (std::size_t back = 0; back < kTaps && back <= t; ++back) {
        convolved += mamba.taps.at(c, back) * values[t - back][c];
      }
      const double value = silu(convolved);
      out[c] = mamba.skip * value;
      for (std::size_t i = 0; i < kState; ++i) {
        memory.at(c, i) = std::exp(-mamba.rate * step) * memory.at(c, i) + step * key[i] * value;
        out[c] += memory.at(c, i) * query[i];
      }
    }
    const Vector gates = all_silu(affine(mamba.gate, tokens[t]));
    if (mamba.place == NormPlace::kBeforeGate) out = times(rms_normalized(out), mamba.gain);
    out = times(out, gates);
    if (mamba.place == NormPlace::kAfterGate) out = times(rms_normalized(out), mamba.gain);
    outputs.push_back(affine(mamba.output, out));
  }
  return outputs;
}

/// Calls claim(mamba, tokens, outputs, random) for both positions of the norm.
template <typename Claim>
void for_random_mambas(const Claim& claim) {
  for_random_tensors([&](Random& random) {
    for (const NormPlace place : {NormPlace::kBeforeGate, NormPlace::kAfterGate}) {
      const Mamba mamba = random_mamba(random, place);
      const Tokens tokens = random.tokens(kTokens, kHidden);
      claim(mamba, tokens, run(mamba, tokens), random);
    }
  });
}

TEST_CASE("the gain of Mamba 2's norm folds into the output projection, before the gate and after it") {
  for_random_mambas([](const Mamba& mamba, const Tokens& tokens, const Tokens& expected, Random&) {
    Mamba folded = mamba;
    folded.output = scaled_columns(mamba.output, mamba.gain);
    check_different(run(folded, tokens), expected);
    folded.gain = Vector(kChannels, 1.0);
    check_same(run(folded, tokens), expected);
  });
}

TEST_CASE("a channel of Mamba 2's convolution and the row that writes it can be scaled against each other") {
  for_random_mambas([](const Mamba& mamba, const Tokens& tokens, const Tokens& expected, Random& random) {
    const Vector factors = random.vector(kChannels, 0.2, 3);
    Mamba scaled = mamba;
    scaled.taps = scaled_rows(mamba.taps, factors);
    Vector inverse = factors;
    for (double& factor : inverse) factor = 1 / factor;
    scaled.value = scaled_rows(mamba.value, inverse);
    check_same(run(scaled, tokens), expected);
    // No factor passes the SiLU: neither with other taps, nor with the inverse factors in the output projection.
    scaled.value = mamba.value;
    scaled.output = scaled_columns(mamba.output, inverse);
    check_different(run(scaled, tokens), expected);
  });
}

TEST_CASE("a bias of Mamba 2's values cannot move into its convolution, whose first tokens see fewer biases") {
  for_random_mambas([](const Mamba& mamba, const Tokens& tokens, const Tokens&, Random& random) {
    Mamba biased = mamba;
    biased.value_bias = random.vector(kChannels);
    Mamba moved = mamba;
    for (std::size_t c = 0; c < kChannels; ++c) {
      for (std::size_t tap = 0; tap < kTaps; ++tap) {
        moved.value_tap_bias[c] += mamba.taps.at(c, tap) * biased.value_bias[c];
      }
    }
    check_different(run(moved, tokens), run(biased, tokens));
  });
}

/// A gated short convolution without the norm of its input.
struct ShortConvolution {
  Matrix before, after, input, output;  ///< two gates, the projection that is convolved, and the output projection
  Vector before_bias, after_bias, input_bias, tap_bias;
  Matrix taps;  ///< [channels][taps]
};

ShortConvolution random_convolution(Random& random) {
  return {.before = random.matrix(kChannels, kHidden),
          .after = random.matrix(kChannels, kHidden),
          .input = random.matrix(kChannels, kHidden),
          .output = random.matrix(kHidden, kChannels),
          .before_bias = random.vector(kChannels),
          .after_bias = random.vector(kChannels),
          .input_bias = random.vector(kChannels),
          .tap_bias = random.vector(kChannels),
          .taps = random.matrix(kChannels, kTaps)};
}

Tokens run(const ShortConvolution& convolution, const Tokens& tokens) {
  Tokens products, outputs;
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    products.push_back(times(affine(convolution.before, tokens[t], convolution.before_bias),
                             affine(convolution.input, tokens[t], convolution.input_bias)));
    Vector convolved = convolution.tap_bias;
    for (std::size_t c = 0; c < kChannels; ++c) {
      for (std::size_t back = 0; back < kTaps && back <= t; ++back) {
        convolved[c] += convolution.taps.at(c, back) * products[t - back][c];
      }
    }
    const Vector gates = affine(convolution.after, tokens[t], convolution.after_bias);
    outputs.push_back(affine(convolution.output, times(convolved, gates)));
  }
  return outputs;
}

TEST_CASE("the input of a short convolution scales against the output projection, unless it adds a bias") {
  for_random_tensors([](Random& random) {
    const ShortConvolution biased = random_convolution(random);
    ShortConvolution plain = biased;
    plain.tap_bias = Vector(kChannels, 0.0);
    const Tokens tokens = random.tokens(kTokens, kHidden);
    const Vector factors = random.vector(kChannels, 0.2, 3);
    Vector inverse = factors;
    for (double& factor : inverse) factor = 1 / factor;
    const auto scaled = [&](ShortConvolution convolution) {
      convolution.input = scaled_rows(convolution.input, factors);
      convolution.input_bias = times(convolution.input_bias, factors);
      convolution.output = scaled_columns(convolution.output, inverse);
      return convolution;
    };
    check_same(run(scaled(plain), tokens), run(plain, tokens));
    check_different(run(scaled(biased), tokens), run(biased, tokens));
  });
}

TEST_CASE("the biases of all three projections of a short convolution stay") {
  for_random_tensors([](Random& random) {
    const ShortConvolution convolution = random_convolution(random);
    const Tokens tokens = random.tokens(kTokens, kHidden);
    for (Vector ShortConvolution::* bias :
         {&ShortConvolution::before_bias, &ShortConvolution::after_bias, &ShortConvolution::input_bias}) {
      ShortConvolution without = convolution;
      without.*bias = Vector(kChannels, 0.0);
      check_different(run(without, tokens), run(convolution, tokens));
    }
    // As constants of the convolution they would be multiplied by the wrong gates.
    ShortConvolution moved = convolution;
    moved.input_bias = Vector(kChannels, 0.0);
    for (std::size_t c = 0; c < kChannels; ++c) {
      for (std::size_t tap = 0; tap < kTaps; ++tap) {
        moved.tap_bias[c] += convolution.taps.at(c, tap) * convolution.input_bias[c];
      }
    }
    check_different(run(moved, tokens), run(convolution, tokens));
  });
}

}  // namespace
}  // namespace ballast::test
