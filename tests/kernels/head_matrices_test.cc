#include "kernels/matrix/head_matrices.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "kernel_cases.h"

namespace ballast::kernels {
namespace {

using Rows = HeadMatrices::Rows;

struct Sizes {
  std::size_t heads, inputs, outputs, m;
};

const Sizes kSizes[] = {{1, 1, 1, 1}, {3, 2, 5, 1}, {2, 17, 31, 4}, {4, 33, 16, 12}, {2, 12, 40, 13}, {5, 8, 65, 40}};

/// Matrices [heads][outputs][inputs], which are concatenated by rows, and rows to multiply with them.
struct HeadsCase {
  Sizes s;
  FloatType type;
  std::vector<float> weights, src, bias;

  HeadsCase(const Sizes& sizes, FloatType held, float magnitude = 1.0F)
      : s(sizes),
        type(held),
        weights(random_floats(s.heads * s.inputs * s.outputs, 1, magnitude)),
        src(random_floats(s.m * stride(), 2)),
        bias(random_floats(s.heads * s.outputs, 3)) {}

  std::size_t stride() const { return s.heads * (s.inputs + 1) + 2; }
  std::size_t dst_stride() const { return s.heads * (s.outputs + 3) + 1; }

  HeadMatrices matrices(Rows rows, bool scaled = false) const {
    const auto decode = [&](std::size_t row, float* dst) {
      const std::size_t per_head = rows == Rows::kOutputs ? s.outputs : s.inputs;
      const std::size_t head = row / per_head, in_head = row % per_head;
      const float* of_head = weights.data() + head * s.inputs * s.outputs;
      if (rows == Rows::kOutputs) {
        std::copy_n(of_head + in_head * s.inputs, s.inputs, dst);
      } else {
        for (std::size_t o = 0; o < s.outputs; ++o) dst[o] = of_head[o * s.inputs + in_head];
      }
    };
    return {{.heads = s.heads, .inputs = s.inputs, .outputs = s.outputs, .rows = rows},
            {.type = type, .scaled = scaled},
            decode};
  }

  std::vector<float> products(const HeadMatrices& matrices, std::size_t first, std::size_t count,
                              bool with_bias) const {
    std::vector<float> dst(count * dst_stride(), kUntouched);
    matrices.multiply({src.data() + first * stride(), stride(), s.inputs + 1}, count, with_bias ? bias.data() : nullptr,
                      {dst.data(), dst_stride(), s.outputs + 3});
    return dst;
  }

  /// Returns the products, with weights rounded to the type unless `rounded` is false.
  std::vector<float> expected(bool with_bias, bool rounded = true) const {
    std::vector<float> dst(s.m * dst_stride(), kUntouched);
    for (std::size_t i = 0; i < s.m; ++i) {
      for (std::size_t h = 0; h < s.heads; ++h) {
        for (std::size_t o = 0; o < s.outputs; ++o) {
          double sum = with_bias ? bias[h * s.outputs + o] : 0.0F;
          for (std::size_t c = 0; c < s.inputs; ++c) {
            float weight = weights[(h * s.outputs + o) * s.inputs + c];
            if (rounded && type != FloatType::kF32) {
              weight = reference::half_to_float(reference::float_to_half(weight, type), type);
            }
            sum += double{src[i * stride() + h * (s.inputs + 1) + c]} * weight;
          }
          dst[i * dst_stride() + h * (s.outputs + 3) + o] = static_cast<float>(sum);
        }
      }
    }
    return dst;
  }
};

TEST_CASE("each head's part of a row is multiplied with its own matrix, stored either way, on every target") {
  for (const FloatType type : {FloatType::kF32, FloatType::kF16, FloatType::kBF16}) {
    for (const Sizes& sizes : kSizes) {
      const HeadsCase c(sizes, type);
      for (const bool with_bias : {false, true}) {
        const std::vector<float> expected = c.expected(with_bias);
        for_every_target([&] {
          CAPTURE(sizes.outputs);
          const HeadMatrices by_output = c.matrices(Rows::kOutputs);
          const std::vector<float> actual = c.products(by_output, 0, sizes.m, with_bias);
          for (std::size_t i = 0; i < actual.size(); ++i) {
            REQUIRE(std::fabs(actual[i] - expected[i]) <= 3e-7 * static_cast<double>(4 + sizes.inputs));
          }
          CHECK(c.products(c.matrices(Rows::kInputs), 0, sizes.m, with_bias) == actual);
        });
      }
    }
  }
}

TEST_CASE("a row's products with heads' matrices are bit-identical for any other rows and any number of threads") {
  for (const FloatType type : {FloatType::kF32, FloatType::kF16}) {
    const HeadsCase c({.heads = 7, .inputs = 130, .outputs = 90, .m = 30}, type);
    for_every_target([&] {
      const HeadMatrices matrices = c.matrices(Rows::kInputs);
      const std::vector<float> all = with_threads(1, [&] { return c.products(matrices, 0, c.s.m, true); });
      for (const int threads : {1, 2, 5}) {
        CHECK(with_threads(threads, [&] { return c.products(matrices, 0, c.s.m, true); }) == all);
        for (const std::size_t i : {0, 3, 29}) {
          const std::vector<float> one = with_threads(threads, [&] { return c.products(matrices, i, 1, true); });
          CHECK(std::equal(one.begin(), one.end(), all.begin() + static_cast<std::ptrdiff_t>(i * c.dst_stride())));
        }
      }
    });
  }
}

TEST_CASE("scaled weights that are too small or too large for F16 keep their digits") {
  for (const float magnitude : {1e-12F, 1e-3F, 1e9F}) {
    const HeadsCase c({.heads = 2, .inputs = 40, .outputs = 33, .m = 2}, FloatType::kF16, magnitude);
    const std::vector<float> expected = c.expected(false, false);
    const std::vector<float> actual = c.products(c.matrices(Rows::kInputs, true), 0, 2, false);
    for (std::size_t i = 0; i < actual.size(); ++i) {
      if (expected[i] == kUntouched) continue;
      CHECK(std::fabs(actual[i] - expected[i]) <= 1e-2 * magnitude);
    }
  }
  const HeadsCase zeros({.heads = 1, .inputs = 3, .outputs = 2, .m = 1}, FloatType::kF16, 0.0F);
  CHECK(zeros.products(zeros.matrices(Rows::kOutputs, true), 0, 1, false)[0] == 0.0F);
}

}  // namespace
}  // namespace ballast::kernels
