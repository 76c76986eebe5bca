#include "kernels/float_gemm.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "ballast/error.h"
#include "ballast/processor.h"
#include "error_message.h"
#include "kernel_cases.h"

namespace ballast::kernels {
namespace {

struct GemmCase {
  std::size_t rows, cols, m;
};

// Sizes below a tile, between and beyond oneDNN's kernels, with depths of one call and of several.
const GemmCase kGemmCases[] = {{1, 1, 13},   {3, 2, 16},     {17, 15, 13},   {33, 31, 64},   {65, 63, 25},
                               {1, 515, 70}, {200, 24, 131}, {40, 1030, 29}, {96, 2050, 65}, {515, 7, 301}};

struct Products {
  std::vector<float> weights, src, bias;
  EncodedFloats encoded;
  FloatMatrix matrix;

  Products(const GemmCase& shape, FloatType type)
      : weights(random_floats(shape.rows * shape.cols, 1)),
        src(random_floats(shape.m * shape.cols, 2)),
        bias(random_floats(shape.rows, 3)),
        encoded(weights, type, true),
        matrix{encoded.data(), type, shape.rows, shape.cols} {}

  /// Returns the products of the first m rows, added to ones.
  std::vector<float> of(std::size_t m, const ComputeOptions& compute) const {
    std::vector<float> dst(m * (matrix.rows + 1), 1.0F);
    const FloatOutput output[] = {
        {.matrix = &matrix, .bias = bias.data(), .dst = dst.data(), .stride = matrix.rows + 1, .accumulate = true}};
    matmul(output, src.data(), m, compute);
    return dst;
  }
};

constexpr ComputeOptions kBf16 = {.bf16_products = true};

bool has(FloatType type) {
  const FloatGemm* gemm = onednn_gemm();
  if (gemm != nullptr && gemm->supports(type) && (type != FloatType::kF32 || own_tile_fuses())) return true;
  MESSAGE("not tested: oneDNN is not built in, or has no such products here");
  return false;
}

TEST_CASE("oneDNN gives the same bits as ballast's own tiles") {
  if (!has(FloatType::kF32)) return;
  for (const FloatType type : {FloatType::kF32, FloatType::kF16, FloatType::kBF16}) {
    for (const GemmCase& shape : kGemmCases) {
      CAPTURE(shape.rows);
      CAPTURE(shape.cols);
      CAPTURE(shape.m);
      const Products products(shape, type);
      REQUIRE(float_gemm_for(shape.m, FloatGemmChoice::kBallast) == nullptr);
      REQUIRE(float_gemm_for(shape.m, FloatGemmChoice::kOneDnn) == onednn_gemm());
      const std::vector<float> own = products.of(shape.m, {.float_gemm = FloatGemmChoice::kBallast});
      CHECK(products.of(shape.m, {.float_gemm = FloatGemmChoice::kOneDnn}) == own);
    }
  }
}

TEST_CASE("products rounded to BF16 are those of rounded values") {
  if (!has(FloatType::kBF16)) return;
  const auto rounded = [](std::vector<float> values) {
    const EncodedFloats bf16(values, FloatType::kBF16);
    to_float(bf16.data(), FloatType::kBF16, values.size(), values.data());
    return values;
  };
  for (const FloatType type : {FloatType::kF32, FloatType::kF16, FloatType::kBF16}) {
    for (const GemmCase& shape : kGemmCases) {
      CAPTURE(shape.rows);
      CAPTURE(shape.cols);
      const Products products(shape, type);
      const std::vector<float> weights = rounded(reference::decode(products.matrix));
      const std::vector<float> src = rounded(products.src);
      for (const std::size_t m : {std::size_t{1}, std::min<std::size_t>(12, shape.m), shape.m}) {
        CAPTURE(m);
        std::vector<float> expected(m * (shape.rows + 1), 0.0F);
        reference::matmul(weights, shape.rows, shape.cols, src.data(), m, products.bias.data(), expected.data(),
                          shape.rows + 1);
        const std::vector<float> actual = products.of(m, kBf16);
        for (std::size_t i = 0; i < actual.size(); ++i) {
          REQUIRE(std::fabs(actual[i] - 1.0F - expected[i]) <= 3e-7 * static_cast<double>(8 + shape.cols));
        }
      }
    }
  }
}

TEST_CASE("rows of BF16 products depend neither on other rows nor on threads nor on the layout of weights") {
  if (!has(FloatType::kBF16)) return;
  for (const FloatType type : {FloatType::kF32, FloatType::kF16, FloatType::kBF16}) {
    Products products({150, 1171, 140}, type);
    const std::vector<float> all = with_threads(1, [&] { return products.of(140, kBf16); });
    const FloatPanels panels(products.matrix);
    for (const bool in_panels : {false, true}) {
      if (in_panels) products.matrix = panels.matrix();
      for (const std::size_t m : {1, 2, 3, 7, 12, 13, 25, 63, 64, 65, 127, 140}) {
        CAPTURE(m);
        const std::vector<float> some = with_threads(m % 2 + 1, [&] { return products.of(m, kBf16); });
        CHECK(std::equal(some.begin(), some.end(), all.begin()));
      }
    }
  }
}

TEST_CASE("oneDNN multiplies F32 only with instruction sets that fuse multiplication and addition") {
  const bool has_onednn = engines().size() > 1;
  for_every_target([&] {
    CHECK((engines().size() > 1) == (has_onednn && own_tile_fuses()));
    if (!own_tile_fuses()) {
      CHECK_THROWS_AS(parse_float_gemm("onednn"), Error);
      CHECK_THROWS_AS(check_compute_options({.float_gemm = FloatGemmChoice::kOneDnn}), Error);
    }
  });
  if (!has_onednn) return;
  for_every_target([] { CHECK((float_gemm_for(100, FloatGemmChoice::kOneDnn) != nullptr) == own_tile_fuses()); });
}

TEST_CASE("float GEMM is chosen by name, or by speed if no name is given") {
  CHECK(engines().front() == "ballast");
  CHECK(test::error_message([] { parse_float_gemm("abacus"); }) ==
        test::Contains("engine 'abacus': supported: auto, ballast"));
  CHECK(parse_float_gemm("auto") == FloatGemmChoice::kFastest);
  for (const std::string& name : engines()) {
    for (const EngineChoice& choice : engine_choices(parse_float_gemm(name))) CHECK(choice.engine == name);
  }
  std::size_t tokens = 0;
  for (const EngineChoice& choice : engine_choices(FloatGemmChoice::kFastest)) {
    CHECK(choice.tokens > tokens);
    tokens = choice.tokens;
    CHECK(choice.speed > 0);
    CHECK(choice.engine == (choice.speed > kSpeedWorthACopy ? engines().back() : engines().front()));
    CHECK((float_gemm_for(tokens, FloatGemmChoice::kFastest) == nullptr) == (choice.engine == "ballast"));
  }
}

}  // namespace
}  // namespace ballast::kernels
