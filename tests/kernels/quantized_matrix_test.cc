#include "kernels/quantized_matrix.h"

#include <array>

#include "ballast/error.h"
#include "kernel_cases.h"
#include "kernels/quantized_storage.h"

namespace ballast::kernels {
namespace {

struct QuantizedCase {
  std::size_t rows, cols, group_size, m;
  int bits;
  bool symmetric;
  std::vector<std::int32_t> outliers;
  bool bf16;
};

/// A random matrix that owns what a QuantizedView points to.
struct RandomMatrix {
  std::vector<std::uint8_t> codes, zeros;
  std::vector<std::uint16_t> scales, outlier_weights;
  std::vector<std::int32_t> outlier_columns;
  QuantizedView view;

  explicit RandomMatrix(const QuantizedCase& c) : outlier_columns(c.outliers) {
    view.rows = c.rows;
    view.cols = c.cols;
    view.bits = c.bits;
    view.group_size = c.group_size;
    const std::size_t groups = view.groups();
    const FloatType type = c.bf16 ? FloatType::kBF16 : FloatType::kF16;
    codes = random_bytes(c.rows * packed_row_bytes(c.cols, c.bits), 1);
    if (!c.symmetric) zeros = random_bytes(c.rows * packed_row_bytes(groups, c.bits), 2);
    for (const float value : random_floats(c.rows * groups, 3, 0.01F)) {
      // Every 5th group is all zero.
      scales.push_back(scales.size() % 5 == 4 ? std::uint16_t{0} : reference::float_to_half(std::fabs(value), type));
    }
    for (const float value : random_floats(c.rows * c.outliers.size(), 4)) {
      outlier_weights.push_back(reference::float_to_half(value, type));
    }
    for (const std::int32_t column : outlier_columns) {
      for (std::size_t r = 0; r < c.rows; ++r) set_code(r, static_cast<std::size_t>(column));
    }
    view.codes = codes;
    view.zeros = zeros;
    view.scale_type = view.outlier_type = c.bf16 ? DType::kBF16 : DType::kF16;
    view.scales = std::as_bytes(std::span(scales));
    view.outlier_columns = outlier_columns;
    view.outlier_weights = std::as_bytes(std::span(outlier_weights));
  }

 private:
  /// Makes a code its group's zero point, as the format demands of outlier columns.
  void set_code(std::size_t row, std::size_t column) {
    const std::size_t group = column / view.group_size;
    const auto get = [&](const std::vector<std::uint8_t>& from, std::size_t count, std::size_t index) {
      const std::uint8_t* begin = from.data() + row * packed_row_bytes(count, view.bits);
      return view.bits == 8 ? begin[index] : (begin[index / 2] >> (index % 2 * 4)) & 15;
    };
    const int zero = zeros.empty() ? 1 << (view.bits - 1) : get(zeros, view.groups(), group);
    std::uint8_t* begin = codes.data() + row * packed_row_bytes(view.cols, view.bits);
    if (view.bits == 8) {
      begin[column] = static_cast<std::uint8_t>(zero);
    } else {
      const int other = begin[column / 2] & (column % 2 == 0 ? 0xF0 : 0x0F);
      begin[column / 2] = static_cast<std::uint8_t>(other | (zero << (column % 2 * 4)));
    }
  }
};

std::vector<QuantizedCase> cases() {
  std::vector<QuantizedCase> all;
  for (const int bits : {4, 8}) {
    for (const bool symmetric : {true, false}) {
      const bool bf16 = symmetric == (bits == 4);
      all.push_back({1, 1, 1, 1, bits, symmetric, {}, bf16});
      all.push_back({1, 5, 2, 9, bits, symmetric, {4}, bf16});
      all.push_back({33, 31, 31, 3, bits, symmetric, {}, bf16});
      all.push_back({31, 33, 32, 7, bits, symmetric, {0, 32}, bf16});
      all.push_back({64, 64, 32, 6, bits, symmetric, {1, 5, 63}, bf16});
      all.push_back({65, 100, 32, 5, bits, symmetric, {}, bf16});
      all.push_back({16, 130, 64, 13, bits, symmetric, {129}, bf16});
      all.push_back({17, 129, 128, 2, bits, symmetric, {}, bf16});
      all.push_back({7, 300, 300, 4, bits, symmetric, {7, 8}, bf16});
      all.push_back({130, 12, 6, 29, bits, symmetric, {}, bf16});
      all.push_back({2, 1030, 1030, 8, bits, symmetric, {}, bf16});
      all.push_back({40, 96, 32, 70, bits, symmetric, {2, 3, 94}, bf16});
    }
  }
  return all;
}

ActivationFormat format_of(const QuantizedMatrix& matrix, bool per_group) {
  return {matrix.cols(), matrix.group_size(), per_group,
          std::vector<std::int32_t>(matrix.outlier_columns().begin(), matrix.outlier_columns().end())};
}

void check_against(const std::vector<float>& actual, const std::vector<float>& expected, const QuantizedCase& c) {
  CAPTURE(c.rows);
  CAPTURE(c.cols);
  CAPTURE(c.group_size);
  CAPTURE(c.m);
  CAPTURE(c.bits);
  CAPTURE(c.symmetric);
  // F32 rounding of at most cols products, relative to the largest result of the matrix.
  CHECK(relative_error(actual, expected) <= 2e-7 * std::sqrt(static_cast<double>(16 + c.cols)));
}

TEST_CASE("a quantized matmul with INT8 activations agrees with exact integers on every target") {
  for (const QuantizedCase& c : cases()) {
    const RandomMatrix random(c);
    std::vector<float> src = random_floats(c.m * c.cols, 5);
    std::fill_n(src.begin(), c.cols, 0.0F);  // a token of zeros
    const std::vector<float> bias = random_floats(c.rows, 6);
    for (const bool per_group : {false, true}) {
      const ActivationFormat format{c.cols, c.group_size, per_group, c.outliers};
      std::vector<float> expected(c.m * (c.rows + 1), kUntouched / 1e5F);
      reference::matmul(random.view, reference::quantize(src.data(), c.m, format), src.data(), c.m, bias.data(),
                        expected.data(), c.rows + 1);
      for_every_target([&] {
        const QuantizedMatrix matrix(random.view);
        Int8Activations activations;
        activations.quantize(src.data(), c.m, format);
        std::vector<float> actual(expected.size(), kUntouched / 1e5F);
        matrix.matmul(activations, c.m, bias.data(), actual.data(), c.rows + 1);
        check_against(actual, expected, c);
      });
    }
  }
}

TEST_CASE("a quantized matmul with float activations agrees with the decoded matrix on every target") {
  for (const QuantizedCase& c : cases()) {
    const RandomMatrix random(c);
    const std::vector<float> src = random_floats(c.m * c.cols, 5);
    const std::vector<float> bias = random_floats(c.rows, 6);
    std::vector<float> expected(c.m * (c.rows + 1), kUntouched / 1e5F);
    reference::matmul(reference::decode(random.view), c.rows, c.cols, src.data(), c.m, bias.data(), expected.data(),
                      c.rows + 1);
    for_every_target([&] {
      const QuantizedMatrix matrix(random.view);
      std::vector<float> actual(expected.size(), kUntouched / 1e5F);
      matrix.matmul(src.data(), c.m, bias.data(), actual.data(), c.rows + 1);
      check_against(actual, expected, c);
    });
  }
}

TEST_CASE("decode_row gives back every row exactly") {
  for (const QuantizedCase& c : cases()) {
    const RandomMatrix random(c);
    const std::vector<float> expected = reference::decode(random.view);
    for_every_target([&] {
      const QuantizedMatrix matrix(random.view);
      std::vector<float> actual(expected.size());
      for (std::size_t r = 0; r < c.rows; ++r) matrix.decode_row(r, actual.data() + r * c.cols);
      CHECK(actual == expected);
    });
  }
}

TEST_CASE("quantizing activations gives the reference's codes, scales and sums on every target") {
  for (const bool per_group : {false, true}) {
    for (const QuantizedCase& c : cases()) {
      const ActivationFormat format{c.cols, c.group_size, per_group, c.outliers};
      std::vector<float> src = random_floats(c.m * c.cols, 8, 3.0F);
      for (const std::int32_t column : c.outliers) src[static_cast<std::size_t>(column)] = 23855.0F;
      const reference::QuantizedActivations expected = reference::quantize(src.data(), c.m, format);
      for_every_target([&] {
        Int8Activations activations;
        activations.quantize(src.data(), c.m, format);
        const Int8Activations::Storage& s = activations.storage();
        for (std::size_t i = 0; i < c.m; ++i) {
          for (std::size_t g = 0; g < s.layout.groups; ++g) {
            REQUIRE(s.scales.data()[i * s.layout.groups + g] == expected.scales[i * s.layout.groups + g]);
            std::int32_t sum = 0;
            const std::int8_t* codes =
                s.codes.data() + i * s.layout.padded_cols() + g * s.layout.group_pairs * GroupLayout::kPairColumns;
            for (std::size_t k = 0; k < s.layout.columns_in(g); ++k) {
              REQUIRE(codes[k] == expected.codes[i * c.cols + g * c.group_size + k]);
              sum += codes[k];
            }
            REQUIRE(s.sums.data()[i * s.layout.groups + g] == sum);
          }
        }
      });
    }
  }
}

TEST_CASE("ties of activations round to even") {
  // With 127 the largest magnitude, the scale is 1.
  const std::array<float, 8> src = {127.0F, 0.5F, 1.5F, 2.5F, -0.5F, -1.5F, -2.5F, 125.5F};
  const std::array<int, 8> expected = {127, 0, 2, 2, 0, -2, -2, 126};
  for_every_target([&] {
    Int8Activations activations;
    activations.quantize(src.data(), 1, {8, 8, false, {}});
    for (std::size_t i = 0; i < 8; ++i) CHECK(activations.storage().codes.data()[i] == expected[i]);
  });
}

TEST_CASE("the largest sums of a wide per-channel matrix do not overflow") {
  const std::size_t cols = 8192;
  std::vector<std::uint8_t> codes(2 * cols, 255);
  std::fill_n(codes.begin(), cols, std::uint8_t{0});
  const std::vector<std::uint16_t> scales(2, 0x3C00);
  QuantizedView view;
  view.rows = 2;
  view.cols = view.group_size = cols;
  view.codes = codes;
  view.scales = std::as_bytes(std::span(scales));
  const std::vector<float> src(cols, -127.0F);
  for_every_target([&] {
    const QuantizedMatrix matrix(view);
    Int8Activations activations;
    activations.quantize(src.data(), 1, format_of(matrix, false));
    float dst[2];
    matrix.matmul(activations, 1, nullptr, dst, 2);
    CHECK(dst[0] == 128.0F * 127.0F * cols);
    CHECK(dst[1] == -127.0F * 127.0F * cols);
  });
}

TEST_CASE("groups too wide for 32-bit sums are refused") {
  QuantizedView view;
  view.rows = 1;
  view.cols = view.group_size = kLargestGroup + 1;
  CHECK_THROWS_AS(QuantizedMatrix{view}, Error);
}

TEST_CASE("quantized products and codes do not depend on the number of threads") {
  const RandomMatrix random({200, 160, 32, 0, 4, false, {5, 100}, false});
  for (const std::size_t m : {1, 6, 7, 300}) {
    const std::vector<float> src = random_floats(m * 160, 2);
    for_every_target([&] {
      const QuantizedMatrix matrix(random.view);
      const auto run = [&] {
        std::vector<float> both(2 * m * 200);
        Int8Activations activations;
        activations.quantize(src.data(), m, format_of(matrix, true));
        matrix.matmul(activations, m, nullptr, both.data(), 200);
        matrix.matmul(src.data(), m, nullptr, both.data() + m * 200, 200);
        return both;
      };
      const std::vector<float> one = with_threads(1, run);
      CHECK(one == with_threads(2, run));
      CHECK(one == with_threads(5, run));
    });
  }
}

TEST_CASE("a token's INT8 product does not depend on the tokens beside it") {
  const RandomMatrix random({48, 96, 32, 0, 4, true, {5}, false});
  const std::vector<float> src = random_floats(40 * 96, 2);
  for_every_target([&] {
    const QuantizedMatrix matrix(random.view);
    const auto run = [&](std::size_t m) {
      Int8Activations activations;
      activations.quantize(src.data(), m, format_of(matrix, false));
      std::vector<float> dst(m * 48);
      matrix.matmul(activations, m, nullptr, dst.data(), 48);
      return dst;
    };
    const std::vector<float> all = run(40);
    for (const std::size_t m : {1, 5, 6, 7, 13}) {
      const std::vector<float> some = run(m);
      CHECK(std::equal(some.begin(), some.end(), all.begin()));
    }
  });
}

}  // namespace
}  // namespace ballast::kernels
