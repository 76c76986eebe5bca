#include "kernels/matrix/float_matrix.h"

#include "kernel_cases.h"

namespace ballast::kernels {
namespace {

struct Shape {
  std::size_t rows, cols, m;
};

const Shape kShapes[] = {{1, 1, 1},   {1, 1, 9},   {3, 2, 5},   {15, 17, 3},  {16, 16, 16},  {17, 15, 13},
                         {31, 33, 4}, {33, 31, 6}, {64, 64, 8}, {65, 63, 25}, {63, 65, 1},   {1, 515, 7},
                         {515, 1, 7}, {7, 300, 2}, {5, 9, 40},  {96, 40, 12}, {200, 24, 131}};

std::vector<float> run(const FloatMatrix& matrix, const std::vector<float>& src, std::size_t m, const float* bias) {
  std::vector<float> dst(m * (matrix.rows + 3), kUntouched);
  const FloatOutput output[] = {{.matrix = &matrix, .bias = bias, .dst = dst.data(), .stride = matrix.rows + 3}};
  matmul(output, src.data(), m);
  return dst;
}

TEST_CASE("a float matmul agrees with the reference on every target, for every shape and type, from odd addresses") {
  for (const FloatType type : {FloatType::kF32, FloatType::kF16, FloatType::kBF16}) {
    for (const Shape& s : kShapes) {
      const EncodedFloats weights(random_floats(s.rows * s.cols, 1), type, true);
      const FloatMatrix matrix{weights.data(), type, s.rows, s.cols};
      const std::vector<float> src = random_floats(s.m * s.cols, 2);
      const std::vector<float> bias = random_floats(s.rows, 3);
      std::vector<float> expected(s.m * (s.rows + 3), kUntouched);
      reference::matmul(reference::decode(matrix), s.rows, s.cols, src.data(), s.m, bias.data(), expected.data(),
                        s.rows + 3);
      for_every_target([&] {
        CAPTURE(s.rows);
        CAPTURE(s.cols);
        CAPTURE(s.m);
        const std::vector<float> actual = run(matrix, src, s.m, bias.data());
        for (std::size_t i = 0; i < actual.size(); ++i) {
          // Sums of normal products: spread sqrt(cols), rounding below 2^-24 of it at each of cols steps.
          REQUIRE(std::fabs(actual[i] - expected[i]) <= 3e-7 * static_cast<double>(4 + s.cols));
        }
      });
    }
  }
}

TEST_CASE("a matrix in panels gives the same products and the same rows") {
  for (const FloatType type : {FloatType::kF32, FloatType::kF16, FloatType::kBF16}) {
    for (const Shape& s : kShapes) {
      const EncodedFloats weights(random_floats(s.rows * s.cols, 1), type, true);
      const FloatMatrix matrix{weights.data(), type, s.rows, s.cols};
      const std::vector<float> src = random_floats(s.m * s.cols, 2);
      const std::vector<float> bias = random_floats(s.rows, 3);
      for_every_target([&] {
        CAPTURE(s.rows);
        CAPTURE(s.cols);
        CAPTURE(s.m);
        const FloatPanels panels(matrix);
        REQUIRE(run(panels.matrix(), src, s.m, bias.data()) == run(matrix, src, s.m, bias.data()));
        for (std::size_t row = 0; row < s.rows; row += 1 + s.rows / 5) {
          std::vector<float> decoded(s.cols);
          std::vector<float> expected(s.cols);
          decode_row(panels.matrix(), row, decoded.data());
          decode_row(matrix, row, expected.data());
          REQUIRE(decoded == expected);
        }
      });
    }
  }
}

TEST_CASE("a float matmul does not depend on the number of threads") {
  const EncodedFloats weights(random_floats(std::size_t{200} * 130, 1), FloatType::kF16);
  const FloatMatrix matrix{weights.data(), FloatType::kF16, 200, 130};
  for (const std::size_t m : {1, 4, 5, 64, 301}) {
    const std::vector<float> src = random_floats(m * 130, 2);
    for_every_target([&] {
      const auto one = with_threads(1, [&] { return run(matrix, src, m, nullptr); });
      CHECK(one == with_threads(2, [&] { return run(matrix, src, m, nullptr); }));
      CHECK(one == with_threads(5, [&] { return run(matrix, src, m, nullptr); }));
    });
  }
}

TEST_CASE("rows of a float matmul do not depend on the number of other rows") {
  for (const FloatType type : {FloatType::kF32, FloatType::kF16, FloatType::kBF16}) {
    const EncodedFloats weights(random_floats(std::size_t{150} * 170, 1), type);
    const FloatMatrix matrix{weights.data(), type, 150, 170};
    const std::vector<float> src = random_floats(std::size_t{100} * 170, 2);
    for_every_target([&] {
      const FloatPanels panels(matrix);
      const std::vector<float> all = run(matrix, src, 100, nullptr);
      for (const std::size_t m : {1, 2, 3, 5, 6, 7, 8, 11, 12, 13, 25, 99}) {
        CAPTURE(m);
        const std::vector<float> some = run(panels.matrix(), src, m, nullptr);
        CHECK(std::equal(some.begin(), some.end(), all.begin()));
      }
    });
  }
}

TEST_CASE("float matmuls of one input give the same as each alone, and add to dst on request") {
  constexpr std::size_t kCols = 50;
  const EncodedFloats first(random_floats(70 * kCols, 1), FloatType::kBF16);
  const EncodedFloats second(random_floats(3 * kCols, 2), FloatType::kF32);
  const EncodedFloats third(random_floats(45 * kCols, 3), FloatType::kF16);
  const FloatMatrix matrices[] = {{first.data(), FloatType::kBF16, 70, kCols},
                                  {second.data(), FloatType::kF32, 3, kCols},
                                  {third.data(), FloatType::kF16, 45, kCols}};
  const std::vector<float> bias = random_floats(70, 4);
  for (const std::size_t m : {1, 5, 40}) {
    const std::vector<float> src = random_floats(m * kCols, 5);
    for_every_target([&] {
      std::vector<std::vector<float>> dst;
      std::vector<std::vector<float>> expected;
      std::vector<FloatOutput> outputs;
      for (const FloatMatrix& matrix : matrices) {
        expected.push_back(run(matrix, src, m, bias.data()));
        dst.push_back(expected.back());
        const bool accumulate = matrix.rows != 3;
        for (float& value : dst.back()) value = value == kUntouched ? kUntouched : 0.25F;
        for (float& value : expected.back()) value += accumulate && value != kUntouched ? 0.25F : 0.0F;
        outputs.push_back({.matrix = &matrix,
                           .bias = bias.data(),
                           .dst = dst.back().data(),
                           .stride = matrix.rows + 3,
                           .accumulate = accumulate});
      }
      const bool done = with_threads(3, [&] {
        matmul(outputs, src.data(), m);
        return true;
      });
      CHECK(done);
      CHECK(dst == expected);
    });
  }
}

TEST_CASE("a float matmul inside a parallel region gives the same result") {
  const EncodedFloats weights(random_floats(std::size_t{64} * 64, 1), FloatType::kF16);
  const FloatMatrix matrix{weights.data(), FloatType::kF16, 64, 64};
  const std::vector<float> src = random_floats(std::size_t{64} * 64, 2);
  const std::vector<float> expected = run(matrix, src, 64, nullptr);
  std::vector<std::vector<float>> results(4);
#pragma omp parallel for num_threads(2)
  for (int i = 0; i < 4; ++i) results[static_cast<std::size_t>(i)] = run(matrix, src, 64, nullptr);
  for (const std::vector<float>& result : results) CHECK(result == expected);
}

TEST_CASE("16-bit values decode exactly and encode to the nearest, ties to even") {
  for (const FloatType type : {FloatType::kF16, FloatType::kBF16}) {
    std::vector<std::uint16_t> bits;
    std::vector<float> values;
    for (std::uint32_t b = 0; b < 65536; ++b) {
      const float value = reference::half_to_float(static_cast<std::uint16_t>(b), type);
      if (!std::isfinite(value)) continue;
      bits.push_back(static_cast<std::uint16_t>(b));
      values.push_back(value);
    }
    // Between any two neighbours these are the middle, and values close to it.
    std::vector<float> between = random_floats(1001, 7, 3.0F);
    for (std::size_t i = 0; i + 1 < values.size(); i += 7) {
      const float middle = values[i] + (values[i + 1] - values[i]) / 2;
      for (const float v : {middle, std::nextafterf(middle, 0.0F), std::nextafterf(middle, 1e9F)}) between.push_back(v);
    }
    std::vector<std::uint16_t> nearest;
    for (const float v : between) nearest.push_back(reference::float_to_half(v, type));
    for_every_target([&] {
      std::vector<float> decoded(bits.size());
      to_float(bits.data(), type, bits.size(), decoded.data());
      CHECK(std::memcmp(decoded.data(), values.data(), values.size() * sizeof(float)) == 0);
      std::vector<std::uint16_t> encoded(bits.size());
      from_float(values.data(), values.size(), type, encoded.data());
      CHECK(encoded == bits);
      encoded.resize(between.size());
      from_float(between.data(), between.size(), type, encoded.data());
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < encoded.size(); ++i) wrong += encoded[i] != nearest[i];
      CHECK(wrong == 0);
    });
  }
}

}  // namespace
}  // namespace ballast::kernels
