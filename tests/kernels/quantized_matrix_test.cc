#include "kernels/matrix/quantized_matrix.h"

#include <algorithm>
#include <array>

#include "ballast/error.h"
#include "kernel_cases.h"
#include "kernels/activation.h"
#include "kernels/matrix/bit_packing.h"
#include "kernels/matrix/quantized_storage.h"
#include "kernels/target.h"

namespace ballast::kernels {
namespace {

struct QuantizedCase {
  std::size_t rows, cols, group_size, m;
  int bits;
  bool symmetric;
  std::vector<std::int32_t> outliers;
  bool bf16;
  CodebookId codebook = CodebookId::kUniform;
};

/// A random matrix, and the arrays that a QuantizedView points to.
struct RandomMatrix {
  std::vector<std::uint8_t> codes, zeros;
  std::vector<std::uint16_t> scales, outlier_weights;
  std::vector<std::int32_t> outlier_columns;
  QuantizedView view;

  explicit RandomMatrix(const QuantizedCase& c) : outlier_columns(c.outliers) {
    view.rows = c.rows;
    view.cols = c.cols;
    view.bits = c.bits;
    view.codebook = c.codebook;
    view.group_size = c.group_size;
    const std::size_t groups = view.groups();
    const FloatType type = c.bf16 ? FloatType::kBF16 : FloatType::kF16;
    codes = random_bytes(c.rows * packed_row_bytes(c.cols, c.bits), 1);
    if (!c.symmetric) zeros = random_bytes(c.rows * packed_row_bytes(groups, c.bits), 2);
    for (const float value : random_floats(c.rows * groups, 3, 0.01F)) {
      // Every 5th group is all zero.
      const float scale = c.codebook == CodebookId::kUniform ? std::fabs(value) : value;
      scales.push_back(scales.size() % 5 == 4 ? std::uint16_t{0} : reference::float_to_half(scale, type));
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
    std::vector<std::uint8_t> row_zeros(view.groups(), static_cast<std::uint8_t>(1 << (view.bits - 1)));
    if (!zeros.empty()) {
      unpack_codes(zeros.data() + row * packed_row_bytes(view.groups(), view.bits), view.bits, row_zeros);
    }
    std::uint8_t* packed = codes.data() + row * packed_row_bytes(view.cols, view.bits);
    std::vector<std::uint8_t> row_codes(view.cols);
    unpack_codes(packed, view.bits, row_codes);
    row_codes[column] = row_zeros[column / view.group_size];
    pack_codes(row_codes, view.bits, packed);
  }
};

std::vector<QuantizedCase> cases() {
  std::vector<QuantizedCase> all;
  for (const int bits : {4, 5, 6, 8}) {
    for (const bool symmetric : {true, false}) {
      const bool bf16 = symmetric == (bits < 6);
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
      all.push_back({3, 520, 256, 5, bits, symmetric, {300}, bf16});
    }
  }
  const std::size_t shapes = 13;  // of each of the formats above
  for (const Codebook& book : kCodebooks) {
    for (std::size_t i = 0; i < shapes; ++i) {
      all.push_back(all[i]);
      all.back().bits = book.bits;
      all.back().codebook = book.id;
      all.back().bf16 = book.bits < 6;
    }
  }
  return all;
}

/// Returns all quantizations with which a case's matrix can be multiplied.
std::vector<ActivationQuantization> formats_of(const QuantizedCase& c) {
  return {{c.cols, c.group_size, ActivationType::kInt8, false, c.outliers},
          {c.cols, c.group_size, ActivationType::kInt8, true, c.outliers},
          {c.cols, c.group_size, ActivationType::kInt16, true, c.outliers}};
}

/// Returns m x rows products, from rows that are one float longer, whose last float must not change.
std::vector<float> multiply(const QuantizedMatrix& matrix, const std::vector<float>& src, std::size_t m,
                            const ActivationQuantization& format, const float* bias) {
  QuantizedActivations activations;
  activations.quantize(RowSource(src.data(), matrix.cols()), m, format);
  std::vector<float> dst(m * (matrix.rows() + 1), kUntouched / 1e5F);
  const QuantizedOutput product[] = {{&activations, &matrix, bias, dst.data(), matrix.rows() + 1}};
  matmul(product);
  return dst;
}

void check_against(const std::vector<float>& actual, const std::vector<float>& expected, const QuantizedCase& c) {
  CAPTURE(c.rows);
  CAPTURE(c.cols);
  CAPTURE(c.group_size);
  CAPTURE(c.m);
  CAPTURE(c.bits);
  CAPTURE(c.symmetric);
  CAPTURE(static_cast<int>(c.codebook));
  // F32 rounding of at most cols products, relative to the largest result of the matrix.
  CHECK(relative_error(actual, expected) <= 2e-7 * std::sqrt(static_cast<double>(16 + c.cols)));
}

TEST_CASE("a quantized matmul agrees with exact integers on every target") {
  for (const QuantizedCase& c : cases()) {
    const RandomMatrix random(c);
    std::vector<float> src = random_floats(c.m * c.cols, 5);
    std::fill_n(src.begin(), c.cols, 0.0F);  // a token of zeros
    const std::vector<float> bias = random_floats(c.rows, 6);
    for (const ActivationQuantization& format : formats_of(c)) {
      CAPTURE(static_cast<int>(format.type));
      std::vector<float> expected(c.m * (c.rows + 1), kUntouched / 1e5F);
      reference::matmul(random.view, reference::quantize(src.data(), c.m, format), src.data(), c.m, bias.data(),
                        expected.data(), c.rows + 1);
      for_every_target([&] {
        const QuantizedMatrix matrix(random.view);
        CHECK(matrix.activation_quantization(format.type, format.scale_per_group) == format);
        check_against(multiply(matrix, src, c.m, format, bias.data()), expected, c);
      });
    }
  }
}

TEST_CASE("integers of one group are exact on every target") {
  // Scales of 1 and a largest magnitude of 127: the F32 results are the integers themselves.
  for (QuantizedCase c : cases()) {
    c.outliers.clear();
    c.group_size = c.cols = std::min<std::size_t>(c.cols, 128);
    RandomMatrix random(c);
    std::fill(random.scales.begin(), random.scales.end(), c.bf16 ? std::uint16_t{0x3F80} : std::uint16_t{0x3C00});
    std::vector<float> src = random_floats(c.m * c.cols, 5, 127.0F);
    for (float& value : src) value = std::clamp(std::nearbyint(value), -127.0F, 127.0F);
    for (std::size_t i = 0; i < c.m; ++i) src[i * c.cols] = 127.0F;
    std::vector<float> expected(c.m * (c.rows + 1), kUntouched / 1e5F);
    reference::matmul(reference::decode(random.view), c.rows, c.cols, src.data(), c.m, nullptr, expected.data(),
                      c.rows + 1);
    for_every_target(
        [&] { CHECK(multiply(QuantizedMatrix(random.view), src, c.m, formats_of(c)[0], nullptr) == expected); });
  }
}

TEST_CASE("products with 16-bit activations are close to those with floats") {
  for (const QuantizedCase& c : cases()) {
    const RandomMatrix random(c);
    const std::vector<float> src = random_floats(c.m * c.cols, 5);
    std::vector<float> expected(c.m * (c.rows + 1), kUntouched / 1e5F);
    reference::matmul(reference::decode(random.view), c.rows, c.cols, src.data(), c.m, nullptr, expected.data(),
                      c.rows + 1);
    const std::vector<float> actual = multiply(QuantizedMatrix(random.view), src, c.m, formats_of(c)[2], nullptr);
    CHECK(relative_error(actual, expected) <= 1e-4);  // a code is off by at most 1 in 65,024 of its group's largest
  }
}

TEST_CASE("several matrices in one call, also with accumulation, give the same as each alone") {
  const RandomMatrix first({50, 96, 32, 0, 4, false, {5}, false});
  const RandomMatrix second({33, 96, 32, 0, 6, true, {5}, false});
  const std::vector<float> earlier = random_floats(std::size_t{9} * 34, 3);
  for (const std::size_t m : {1, 9}) {
    const std::vector<float> src = random_floats(m * 96, 2);
    for_every_target([&] {
      const QuantizedMatrix matrices[] = {QuantizedMatrix(first.view), QuantizedMatrix(second.view)};
      const ActivationQuantization format = matrices[0].activation_quantization(ActivationType::kInt8, true);
      const std::vector<float> expected_first = multiply(matrices[0], src, m, format, nullptr);
      const std::vector<float> alone = multiply(matrices[1], src, m, format, nullptr);
      std::vector<float> dst_first(m * 51, kUntouched / 1e5F);
      std::vector<float> dst_second(earlier.begin(), earlier.begin() + static_cast<std::ptrdiff_t>(m * 34));
      QuantizedActivations activations;
      activations.quantize(RowSource(src.data(), 96), m, format);
      const QuantizedOutput products[] = {{&activations, &matrices[0], nullptr, dst_first.data(), 51},
                                          {&activations, &matrices[1], nullptr, dst_second.data(), 34, true}};
      matmul(products);
      CHECK(dst_first == expected_first);
      for (std::size_t i = 0; i < m; ++i) {
        for (std::size_t r = 0; r < 33; ++r) CHECK(dst_second[i * 34 + r] == earlier[i * 34 + r] + alone[i * 34 + r]);
        CHECK(dst_second[i * 34 + 33] == earlier[i * 34 + 33]);
      }
    });
  }
}

TEST_CASE("joined ranges of rows give the bits of each alone, with bias and decoded, too") {
  const RandomMatrix first({64, 96, 32, 0, 4, true, {5}, false});
  const RandomMatrix second({50, 96, 32, 0, 5, true, {5}, false, CodebookId::kNl5});
  const RandomMatrix third({33, 96, 32, 0, 8, true, {5}, true});
  const std::vector<const RandomMatrix*> randoms = {&first, &second, &third};
  constexpr std::size_t kRows = 64 + 50 + 33;
  const std::vector<float> bias = random_floats(kRows, 7);
  for (const std::size_t m : {1, 9, 70}) {
    const std::vector<float> src = random_floats(m * 96, 2);
    for_every_target([&] {
      std::vector<QuantizedMatrix> ranges;
      for (const RandomMatrix* random : randoms) ranges.emplace_back(random->view);
      const QuantizedMatrix joined(std::move(ranges));
      REQUIRE(joined.rows() == kRows);
      REQUIRE(joined.cols() == 96);
      const ActivationQuantization format = joined.activation_quantization(ActivationType::kInt8, true);
      const std::vector<float> products = multiply(joined, src, m, format, bias.data());
      const std::size_t stride = products.size() / m;
      std::size_t before = 0;
      std::size_t bytes = 0;
      for (const RandomMatrix* random : randoms) {
        const QuantizedMatrix alone(random->view);
        const std::vector<float> expected = multiply(alone, src, m, format, bias.data() + before);
        const std::size_t own_stride = expected.size() / m;
        for (std::size_t i = 0; i < m; ++i) {
          const auto begin = products.begin() + static_cast<std::ptrdiff_t>(i * stride + before);
          const auto own = expected.begin() + static_cast<std::ptrdiff_t>(i * own_stride);
          CHECK(std::equal(own, own + static_cast<std::ptrdiff_t>(alone.rows()), begin));
        }
        std::vector<float> decoded(96);
        std::vector<float> own_decoded(96);
        for (const std::size_t row : {std::size_t{0}, alone.rows() - 1}) {
          joined.decode_row(before + row, decoded.data());
          alone.decode_row(row, own_decoded.data());
          CHECK(decoded == own_decoded);
        }
        before += alone.rows();
        bytes += alone.bytes();
      }
      CHECK(joined.bytes() == bytes);
    });
  }
}

TEST_CASE("a matrix with a gate gives the activated product of the gate times its own, to the bit") {
  const std::size_t rows = 70;  // panels of every width, and a part of one
  for (const int gate_bits : {4, 8}) {
    const RandomMatrix random({rows, 96, 32, 0, 5, false, {5}, false});
    const RandomMatrix random_gate({rows, 96, 32, 0, gate_bits, true, {5}, true});
    const std::vector<float> bias = random_floats(rows, 6);
    const std::vector<float> gate_bias = random_floats(rows, 7);
    for (const std::size_t m : {1, 9, 16, 17, 90}) {
      const std::vector<float> src = random_floats(m * 96, 2);
      for (const Activation activation : {Activation::kSilu, Activation::kGelu, Activation::kRelu}) {
        for_every_target([&] {
          const QuantizedMatrix matrix(random.view);
          const QuantizedMatrix gate(random_gate.view);
          const ActivationQuantization format = matrix.activation_quantization(ActivationType::kInt8, true);
          std::vector<float> expected = multiply(gate, src, m, format, gate_bias.data());
          const std::vector<float> factor = multiply(matrix, src, m, format, bias.data());
          activate_multiply(activation, expected.data(), factor.data(), expected.size(), expected.data());
          for (std::size_t i = 0; i < m; ++i) expected[i * (rows + 1) + rows] = kUntouched;
          QuantizedActivations activations;
          activations.quantize(RowSource(src.data(), 96), m, format);
          std::vector<float> dst(m * (rows + 1), kUntouched);
          const QuantizedOutput product[] = {{.src = &activations,
                                              .matrix = &matrix,
                                              .bias = bias.data(),
                                              .dst = dst.data(),
                                              .stride = rows + 1,
                                              .gate = &gate,
                                              .gate_bias = gate_bias.data(),
                                              .activation = activation}};
          matmul(product);
          CHECK(dst == expected);
        });
      }
    }
  }
}

TEST_CASE("matrices that read different tokens give the same bits as each alone") {
  constexpr std::size_t kRows = 70;
  const RandomMatrix random_gate({kRows, 96, 32, 0, 8, true, {5}, true});
  std::vector<RandomMatrix> random;
  for (const int bits : {4, 5, 6, 8}) random.push_back(RandomMatrix({kRows, 96, 32, 0, bits, bits < 6, {5}, false}));
  // Each matrix gets few tokens, then some get many, which changes how the work is divided.
  for (const std::array<std::size_t, 4>& tokens : {std::array<std::size_t, 4>{1, 3, 0, 16}, {2, 40, 17, 5}}) {
    const std::vector<float> src = random_floats((tokens[0] + tokens[1] + tokens[2] + tokens[3]) * 96, 2);
    for (const bool gated : {false, true}) {
      for_every_target([&] {
        const QuantizedMatrix gate(random_gate.view);
        std::vector<QuantizedMatrix> matrices;
        for (const RandomMatrix& matrix : random) matrices.emplace_back(matrix.view);
        QuantizedActivations activations;
        const auto run = [&](const float* rows, std::size_t m, std::span<const QuantizedOutput> products) {
          activations.quantize(RowSource(rows, 96), m,
                               matrices[0].activation_quantization(ActivationType::kInt8, true));
          matmul(products);
        };
        std::vector<float> expected(src.size() / 96 * kRows, kUntouched);
        std::vector<float> dst = expected;
        std::vector<QuantizedOutput> apart;
        std::size_t first = 0;
        for (std::size_t i = 0; i < matrices.size(); first += tokens[i++]) {
          if (tokens[i] == 0) continue;
          QuantizedOutput product = {.src = &activations,
                                     .matrix = &matrices[i],
                                     .dst = expected.data() + first * kRows,
                                     .stride = kRows,
                                     .gate = gated ? &gate : nullptr};
          run(src.data() + first * 96, tokens[i], {&product, 1});
          product.dst = dst.data() + first * kRows;
          product.first_token = first;
          product.tokens = tokens[i];
          apart.push_back(product);
        }
        run(src.data(), first, apart);
        CHECK(dst == expected);
      });
    }
  }
}

TEST_CASE("runs of tokens in formats of their own give the same bits as each alone") {
  constexpr std::size_t kRows = 70;
  const RandomMatrix random[] = {
      RandomMatrix({kRows, 96, 32, 0, 8, true, {5}, false}), RandomMatrix({kRows, 96, 96, 0, 4, true, {}, false}),
      RandomMatrix({kRows, 96, 32, 0, 5, true, {0, 95}, false}), RandomMatrix({kRows, 96, 16, 0, 6, true, {}, false})};
  for (const ActivationType type : {ActivationType::kInt8, ActivationType::kInt16}) {
    for (const std::array<std::size_t, 4>& tokens : {std::array<std::size_t, 4>{1, 3, 1, 16}, {2, 40, 17, 5}}) {
      const std::vector<float> src = random_floats((tokens[0] + tokens[1] + tokens[2] + tokens[3]) * 96, 2);
      for_every_target([&] {
        std::vector<QuantizedMatrix> matrices;
        std::vector<ActivationQuantization> formats;
        for (const RandomMatrix& matrix : random) {
          formats.push_back(matrices.emplace_back(matrix.view).activation_quantization(type, true));
        }
        std::vector<float> expected(src.size() / 96 * kRows, kUntouched);
        std::vector<float> dst = expected;
        std::vector<QuantizedActivations> activations(matrices.size());
        std::vector<QuantizedActivations::Run> runs;
        std::vector<QuantizedOutput> products;
        for (std::size_t i = 0, first = 0; i < matrices.size(); first += tokens[i++]) {
          QuantizedOutput product = {
              .src = &activations[i], .matrix = &matrices[i], .dst = expected.data() + first * kRows, .stride = kRows};
          activations[i].quantize(RowSource(src.data() + first * 96, 96), tokens[i], formats[i]);
          matmul({&product, 1});
          product.dst = dst.data() + first * kRows;
          products.push_back(product);
          runs.push_back({.dst = &activations[i], .format = &formats[i], .first = first, .count = tokens[i]});
        }
        QuantizedActivations::quantize(RowSource(src.data(), 96), runs);
        matmul(products);
        CHECK(dst == expected);
      });
    }
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
  for (const QuantizedCase& c : cases()) {
    for (const ActivationQuantization& format : formats_of(c)) {
      std::vector<float> src = random_floats(c.m * c.cols, 8, 3.0F);
      for (const std::int32_t column : c.outliers) src[static_cast<std::size_t>(column)] = 23855.0F;
      const reference::IntegerActivations expected = reference::quantize(src.data(), c.m, format);
      for_every_target([&] {
        QuantizedActivations activations;
        activations.quantize(RowSource(src.data(), c.cols), c.m, format);
        const QuantizedActivations::Storage& s = activations.storage();
        const std::size_t padded = s.layout.padded_cols();
        for (std::size_t i = 0; i < c.m; ++i) {
          for (std::size_t g = 0; g < s.layout.groups; ++g) {
            const std::int8_t* codes = s.codes.data() + i * s.planes() * padded + s.layout.padded_begin(g);
            std::int32_t sums[2] = {0, 0};
            for (std::size_t k = 0; k < s.layout.columns_in(g); ++k) {
              const std::size_t at = i * c.cols + g * s.layout.group_size + k;
              const int code =
                  format.type == ActivationType::kInt8 ? codes[k] : codes[k] * kPlaneFactor + codes[padded + k];
              REQUIRE(code == expected.codes[at]);
              REQUIRE(s.scales.data()[i * s.layout.groups + g] == expected.scales[at]);
              sums[0] -= codes[k];
              if (format.type == ActivationType::kInt16) sums[1] -= codes[padded + k];
            }
            for (std::size_t plane = 0; plane < s.planes(); ++plane) {
              REQUIRE(s.negated_sums.data()[(i * s.planes() + plane) * s.layout.groups + g] == sums[plane]);
            }
          }
        }
      });
    }
  }
}

TEST_CASE("a NaN is not lost in the rounding of its group") {
  constexpr std::size_t kCols = 70;
  for (const std::size_t at : {0, 3, 17, 31, 40, 69}) {
    CAPTURE(at);
    std::vector<float> src = random_floats(kCols, 8, 3.0F);
    src[at] = std::numeric_limits<float>::quiet_NaN();
    for (const ActivationType type : {ActivationType::kInt8, ActivationType::kInt16}) {
      for_every_target([&] {
        QuantizedActivations activations;
        activations.quantize(RowSource(src.data(), kCols), 1, {kCols, kCols, type, false, {}});
        CHECK(std::isnan(activations.storage().scales.data()[0]));
      });
    }
  }
}

TEST_CASE("ties of activations round to even") {
  // With 127 the largest magnitude, the scale is 1.
  const std::array<float, 8> src = {127.0F, 0.5F, 1.5F, 2.5F, -0.5F, -1.5F, -2.5F, 125.5F};
  const std::array<int, 8> expected = {127, 0, 2, 2, 0, -2, -2, 126};
  for_every_target([&] {
    QuantizedActivations activations;
    activations.quantize(RowSource(src.data(), 8), 1, {8, 8, ActivationType::kInt8, false, {}});
    for (std::size_t i = 0; i < 8; ++i) CHECK(activations.storage().codes.data()[i] == expected[i]);
  });
}

TEST_CASE("rows that are computed when read are quantized like rows in memory") {
  const std::vector<float> src = random_floats(std::size_t{5} * 70, 4);
  const ActivationQuantization format{70, 32, ActivationType::kInt8, true, {3}};
  for_every_target([&] {
    QuantizedActivations from_memory, on_the_way;
    from_memory.quantize(RowSource(src.data(), 70), 5, format);
    const auto make = [&](std::size_t row, float* scratch) {
      return static_cast<const float*>(std::copy_n(src.data() + row * 70, 70, scratch) - 70);
    };
    on_the_way.quantize(RowSource(make), 5, format);
    const auto& a = from_memory.storage();
    const auto& b = on_the_way.storage();
    CHECK(std::equal(a.codes.data(), a.codes.data() + 5 * a.layout.padded_cols(), b.codes.data()));
    CHECK(std::equal(a.outliers.data(), a.outliers.data() + 5, b.outliers.data()));
  });
}

TEST_CASE("the largest sums of a wide per-channel matrix do not overflow, in 16 bits or 32") {
  const std::size_t cols = 8192;
  const std::size_t tokens = 7;
  std::vector<float> src(tokens * cols, -127.0F);
  std::fill(src.begin() + cols, src.begin() + 2 * cols, 127.0F);  // the second token
  const std::vector<std::uint16_t> scales(2, 0x3C00);
  for (const int weight_bits : {4, 5, 6, 8}) {
    CAPTURE(weight_bits);
    std::vector<std::uint8_t> codes(2 * packed_row_bytes(cols, weight_bits), 255);
    std::fill_n(codes.begin(), codes.size() / 2, std::uint8_t{0});
    QuantizedView view;
    view.rows = 2;
    view.cols = view.group_size = cols;
    view.bits = weight_bits;
    view.codes = codes;
    view.scales = std::as_bytes(std::span(scales));
    const float largest = static_cast<float>(1 << (weight_bits - 1)) * 127.0F * cols;
    const float next = static_cast<float>((1 << (weight_bits - 1)) - 1) * 127.0F * cols;
    for (const ActivationType type : {ActivationType::kInt8, ActivationType::kInt16}) {
      for_every_target([&] {
        const QuantizedMatrix matrix(view);
        for (const std::size_t m : {std::size_t{1}, tokens}) {
          const std::vector<float> dst = multiply(matrix, src, m, matrix.activation_quantization(type, false), nullptr);
          for (std::size_t token = 0; token < m; ++token) {
            const float sign = token == 1 ? -1.0F : 1.0F;
            CHECK(dst[3 * token] == doctest::Approx(sign * largest));
            CHECK(dst[3 * token + 1] == doctest::Approx(-sign * next));
          }
        }
      });
    }
  }
}

TEST_CASE("groups too wide for 32-bit sums are refused") {
  QuantizedView view;
  view.rows = 1;
  view.group_size = kLargestGroup + 1;
  view.cols = 2 * view.group_size;  // a group that is the whole row could be cut
  CHECK_THROWS_AS(QuantizedMatrix{view}, Error);
}

TEST_CASE("quantized products and codes do not depend on the number of threads") {
  const RandomMatrix random({200, 160, 32, 0, 4, false, {5, 100}, false});
  for (const std::size_t m : {1, 6, 7, 300}) {
    const std::vector<float> src = random_floats(m * 160, 2);
    for_every_target([&] {
      const QuantizedMatrix matrix(random.view);
      for (const ActivationType type : {ActivationType::kInt8, ActivationType::kInt16}) {
        const auto run = [&] { return multiply(matrix, src, m, matrix.activation_quantization(type, true), nullptr); };
        const std::vector<float> one = with_threads(1, run);
        CHECK(one == with_threads(2, run));
        CHECK(one == with_threads(5, run));
      }
    });
  }
}

TEST_CASE("a token's product does not depend on the other tokens") {
  for (const int weight_bits : {4, 5, 6, 8}) {
    for (const bool symmetric : {true, false}) {
      const RandomMatrix random({48, 96, 32, 0, weight_bits, symmetric, {5}, false});
      const std::vector<float> src = random_floats(std::size_t{40} * 96, 2);
      for_every_target([&] {
        const QuantizedMatrix matrix(random.view);
        for (const ActivationType type : {ActivationType::kInt8, ActivationType::kInt16}) {
          const ActivationQuantization format = matrix.activation_quantization(type, true);
          const std::vector<float> all = multiply(matrix, src, 40, format, nullptr);
          for (const std::size_t m : {1, 2, 3, 5, 6, 7, 13}) {
            const std::vector<float> some = multiply(matrix, src, m, format, nullptr);
            CHECK(std::equal(some.begin(), some.end(), all.begin()));
          }
        }
      });
    }
  }
}

TEST_CASE("emulated AMX tiles give the same bits as vectors") {
  for (QuantizedCase c : cases()) {
    c.m = 83;  // two blocks of 32 tokens, or five of 16 with two planes, and some that are left
    const RandomMatrix random(c);
    const std::vector<float> src = random_floats(c.m * c.cols, 5);
    const std::vector<float> bias = random_floats(c.rows, 6);
    for (const ActivationQuantization& format : formats_of(c)) {
      for_every_target([&] {
        const QuantizedMatrix matrix(random.view);
        const std::vector<float> expected = multiply(matrix, src, c.m, format, bias.data());
        emulate_amx(true);
        const std::vector<float> actual = multiply(matrix, src, c.m, format, bias.data());
        emulate_amx(false);
        CHECK(actual == expected);
      });
    }
  }
}

}  // namespace
}  // namespace ballast::kernels
