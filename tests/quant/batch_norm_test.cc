#include "quant/batch_norm.h"

#include <doctest/doctest.h>

#include <cmath>

#include "error_message.h"
#include "working_layer.h"

namespace ballast::quant {
namespace {

using test::Contains;
using test::error_message;
using test::Random;

constexpr std::size_t kRows = 5;
constexpr std::size_t kCols = 7;

WorkingLinear random_linear(Random& random, bool biased) {
  WorkingLinear linear;
  linear.name = "conv";
  linear.rows = kRows;
  linear.cols = kCols;
  linear.values = test::floats(random.vector(kRows * kCols));
  if (biased) linear.bias = test::floats(random.vector(kRows));
  linear.absmax = 1;
  return linear;
}

BatchNorm random_norm(Random& random) {
  return {.gain = test::floats(random.vector(kRows, -2, 2)),
          .bias = test::floats(random.vector(kRows)),
          .mean = test::floats(random.vector(kRows)),
          .variance = test::floats(random.vector(kRows, 0.01, 4))};
}

TEST_CASE("a linear with a folded BatchNorm computes what both did") {
  for (const bool biased : {false, true}) {
    for (unsigned seed = 1; seed <= 4; ++seed) {
      Random random(seed);
      WorkingLinear linear = random_linear(random, biased);
      const BatchNorm norm = random_norm(random);
      const test::Vector input = random.vector(kCols);
      test::Vector expected = test::output_of(linear, input);
      for (std::size_t c = 0; c < kRows; ++c) {
        expected[c] = double{norm.gain[c]} * (expected[c] - double{norm.mean[c]}) /
                          std::sqrt(double{norm.variance[c]} + norm.epsilon) +
                      double{norm.bias[c]};
      }
      fold_batch_norm(norm, linear);
      CHECK(test::relative_change({expected}, {test::output_of(linear, input)}) < 2e-6);
      for (const float value : linear.values) CHECK(std::abs(value) <= linear.absmax);
    }
  }
}

TEST_CASE("folding a BatchNorm while planning comes to the same sizes and bounds") {
  Random random(1);
  WorkingLinear run = random_linear(random, false);
  WorkingLinear plan = run;
  plan.values.clear();
  const BatchNorm norm = random_norm(random);
  fold_batch_norm(norm, run);
  fold_batch_norm(norm, plan);
  CHECK(plan.bias == run.bias);
  CHECK(plan.absmax == run.absmax);
}

TEST_CASE("a BatchNorm of another size or without a variance is refused") {
  Random random(1);
  WorkingLinear linear = random_linear(random, true);
  BatchNorm norm = random_norm(random);
  norm.mean.pop_back();
  CHECK(error_message([&] { fold_batch_norm(norm, linear); }) ==
        Contains("conv: has 5 outputs, the BatchNorm behind it 4 channels"));
  norm = random_norm(random);
  for (const float variance : {-1.0F, std::nanf(""), INFINITY}) {
    norm.variance[2] = variance;
    CHECK(error_message([&] { fold_batch_norm(norm, linear); }) == Contains("variance"));
  }
}

}  // namespace
}  // namespace ballast::quant
