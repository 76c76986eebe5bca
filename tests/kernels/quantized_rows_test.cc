// Matrices whose groups have factors, minimums, or half a block of columns.
#include "kernels/matrix/quantized_rows.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "kernel_cases.h"
#include "kernels/matrix/quantized_matrix.h"

namespace ballast::kernels {
namespace {

using Offset = CodeLayout::Offset;

constexpr std::size_t kMostTokens = 40;  // more than are multiplied without expanding panels

std::vector<CodeLayout> forms() {
  std::vector<CodeLayout> all;
  for (const int bits : {4, 5, 6, 8}) {
    for (const std::size_t group_size : {16, 32}) {
      if (bits == 5 && group_size == 16) continue;
      for (const Offset offset : {Offset::kMiddle, Offset::kMinimums}) {
        if (bits == 8 && offset == Offset::kMinimums) continue;
        for (const std::size_t groups_of_scale : {0, 8, 16}) {
          all.push_back({.rows = 45,
                         .cols = group_size == 16 ? std::size_t{288} : std::size_t{300},
                         .bits = bits,
                         .group_size = group_size,
                         .offset = offset,
                         .groups_of_scale = groups_of_scale,
                         .bf16_scales = bits == 5,
                         .bf16_outliers = false,
                         .outlier_columns = {}});
        }
      }
    }
  }
  return all;
}

std::vector<std::uint16_t> random_halves(std::size_t count, unsigned seed, FloatType type) {
  std::vector<std::uint16_t> halves;
  for (const float value : random_floats(count, seed, 0.01F)) halves.push_back(reference::float_to_half(value, type));
  return halves;
}

std::vector<std::int8_t> random_factors(std::size_t count, unsigned seed) {
  const std::vector<std::uint8_t> bytes = random_bytes(count, seed);
  return {bytes.begin(), bytes.end()};
}

QuantizedRow random_row(const CodeLayout& form, std::size_t row) {
  const auto seed = static_cast<unsigned>(10 * row);
  const FloatType type = form.bf16_scales ? FloatType::kBF16 : FloatType::kF16;
  QuantizedRow result(form);
  result.codes = random_bytes(form.cols, seed);
  for (std::uint8_t& code : result.codes) code = static_cast<std::uint8_t>(code & ((1 << form.bits) - 1));
  result.scales = random_halves(result.scales.size(), seed + 1, type);
  result.minimums = random_halves(result.minimums.size(), seed + 2, type);
  result.factors = random_factors(result.factors.size(), seed + 3);
  result.minimum_factors = random_factors(result.minimum_factors.size(), seed + 4);
  return result;
}

/// Returns the values of the row's codes, [cols].
std::vector<float> values_of(const CodeLayout& form, const QuantizedRow& row) {
  const FloatType type = form.bf16_scales ? FloatType::kBF16 : FloatType::kF16;
  const auto value = [&](const std::vector<std::uint16_t>& of_groups, const std::vector<std::int8_t>& factors,
                         std::size_t group) {
    if (!form.has_factors()) return reference::read_value(of_groups.data(), type, group);
    return reference::read_value(of_groups.data(), type, group / form.groups_of_scale) *
           static_cast<float>(factors[group]);
  };
  std::vector<float> values(form.cols);
  for (std::size_t c = 0; c < form.cols; ++c) {
    const std::size_t group = c / form.group_size;
    const bool minimums = form.offset == Offset::kMinimums;
    const int zero = minimums ? 0 : 1 << (form.bits - 1);
    values[c] = static_cast<float>(row.codes[c] - zero) * value(row.scales, row.factors, group);
    if (minimums) values[c] -= value(row.minimums, row.minimum_factors, group);
  }
  return values;
}

QuantizedMatrix matrix_of(const CodeLayout& form) {
  return {form, [&](std::size_t row, QuantizedRow& dst) { dst = random_row(form, row); }};
}

std::vector<float> weights_of(const CodeLayout& form) {
  std::vector<float> weights;
  for (std::size_t row = 0; row < form.rows; ++row) {
    const std::vector<float> values = values_of(form, random_row(form, row));
    weights.insert(weights.end(), values.begin(), values.end());
  }
  return weights;
}

std::vector<float> multiply(const QuantizedMatrix& matrix, const float* src, std::size_t m,
                            const ActivationQuantization& format) {
  QuantizedActivations activations;
  activations.quantize(RowSource(src, matrix.cols()), m, format);
  std::vector<float> dst(m * matrix.rows());
  const QuantizedOutput product[] = {{&activations, &matrix, nullptr, dst.data(), matrix.rows()}};
  matmul(product);
  return dst;
}

TEST_CASE("rows in other layouts are decoded to the values of their codes") {
  for (const CodeLayout& form : forms()) {
    CAPTURE(form.bits);
    CAPTURE(form.group_size);
    CAPTURE(form.groups_of_scale);
    const std::vector<float> weights = weights_of(form);
    for_every_target([&] {
      const QuantizedMatrix matrix = matrix_of(form);
      std::vector<float> decoded(form.rows * form.cols);
      for (std::size_t row = 0; row < form.rows; ++row) matrix.decode_row(row, decoded.data() + row * form.cols);
      CHECK(decoded == weights);
    });
  }
}

TEST_CASE("columns in another order are multiplied with their own inputs, on every target") {
  for (const CodeLayout& form : forms()) {
    CodeLayout ordered = form;
    ordered.column_order.resize(form.cols);
    std::iota(ordered.column_order.begin(), ordered.column_order.end(), 0);
    std::ranges::shuffle(ordered.column_order, std::mt19937(4));
    const std::vector<float> src = random_floats(kMostTokens * form.cols, 6);
    std::vector<float> moved(src.size());
    const auto column = [&](std::size_t i) { return static_cast<std::size_t>(ordered.column_order[i % form.cols]); };
    for (std::size_t i = 0; i < src.size(); ++i) moved[i] = src[i / form.cols * form.cols + column(i)];
    for_every_target([&] {
      const QuantizedMatrix plain = matrix_of(form);
      const QuantizedMatrix matrix = matrix_of(ordered);
      for (const ActivationType type : {ActivationType::kInt8, ActivationType::kInt16}) {
        CHECK(multiply(matrix, src.data(), kMostTokens, matrix.activation_quantization(type, true)) ==
              multiply(plain, moved.data(), kMostTokens, plain.activation_quantization(type, true)));
      }
      std::vector<float> row(form.cols), expected(form.cols), decoded(form.cols);
      plain.decode_row(1, row.data());
      for (std::size_t i = 0; i < form.cols; ++i) expected[column(i)] = row[i];
      matrix.decode_row(1, decoded.data());
      CHECK(decoded == expected);
    });
  }
}

TEST_CASE("products with rows in other layouts agree with exact integers, alone and together, on every target") {
  for (const CodeLayout& form : forms()) {
    CAPTURE(form.bits);
    CAPTURE(form.group_size);
    CAPTURE(form.groups_of_scale);
    CAPTURE(static_cast<int>(form.offset));
    const std::vector<float> weights = weights_of(form);
    const std::vector<float> src = random_floats(kMostTokens * form.cols, 5);
    for (const ActivationType type : {ActivationType::kInt8, ActivationType::kInt16}) {
      for (const bool scale_per_group : {true, false}) {
        if (type == ActivationType::kInt16 && !scale_per_group) continue;
        const ActivationQuantization format = {form.cols, form.group_size, type, scale_per_group, {}};
        const reference::IntegerActivations integers = reference::quantize(src.data(), kMostTokens, format);
        std::vector<float> rounded(src.size());
        for (std::size_t i = 0; i < src.size(); ++i) {
          rounded[i] = static_cast<float>(integers.codes[i]) * integers.scales[i];
        }
        std::vector<float> expected(kMostTokens * form.rows);
        reference::matmul(weights, form.rows, form.cols, rounded.data(), kMostTokens, nullptr, expected.data(),
                          form.rows);
        for_every_target([&] {
          const QuantizedMatrix matrix = matrix_of(form);
          CHECK(matrix.activation_quantization(type, scale_per_group) == format);
          const std::vector<float> all = multiply(matrix, src.data(), kMostTokens, format);
          CHECK(relative_error(all, expected) <= 1e-5);
          for (const std::size_t m : {1, 2, 7}) {
            const std::vector<float> some = multiply(matrix, src.data(), m, format);
            CHECK(std::equal(some.begin(), some.end(), all.begin()));
          }
        });
      }
    }
  }
}

}  // namespace
}  // namespace ballast::kernels
