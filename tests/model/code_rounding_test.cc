#include "model/source/code_rounding.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "file_bytes.h"
#include "gguf_model.h"
#include "kernels/matrix/float_matrix.h"
#include "model/model.h"
#include "temporary_directory.h"
#include "tiny_model.h"

namespace ballast::model {
namespace {

constexpr std::uint16_t kHalf = 0x3800;  // 0.5 in F16
constexpr double kScale = 0.5;

/// Normally distributed values, rounded to the nearest of some codes times kScale, and the actual error.
struct RoundedValues {
  formats::StoredCodes codes;
  RelativeError error;
};

RoundedValues round_to(const std::vector<int>& values_of_codes, int bits, double spread) {
  constexpr std::size_t kRows = 20, kCols = 512;
  std::mt19937 random(3);
  std::normal_distribution<double> bell(0, spread * kScale);
  const int middle = 1 << (bits - 1);
  std::vector<std::uint8_t> rounded;
  RelativeError error;
  for (std::size_t i = 0; i < kRows * kCols; ++i) {
    const double value = bell(random);
    const int nearest =
        *std::ranges::min_element(values_of_codes, {}, [&](int code) { return std::abs(code * kScale - value); });
    rounded.push_back(static_cast<std::uint8_t>(nearest + middle));
    const double difference = nearest * kScale - value;
    error += {difference * difference, value * value};
  }
  formats::StoredCodes codes;
  codes.layout.emplace();
  codes.layout->rows = kRows;
  codes.layout->cols = kCols;
  codes.layout->bits = bits;
  codes.layout->group_size = 32;
  codes.read_row = [rounded](std::size_t row, kernels::QuantizedRow& dst) {
    std::copy_n(rounded.data() + row * kCols, kCols, dst.codes.data());
    std::ranges::fill(dst.scales, kHalf);
    return true;
  };
  return {std::move(codes), error};
}

TEST_CASE("the error of rounding to codes is estimated from the codes alone") {
  std::vector<int> even4, even8;
  for (int code = -8; code < 8; ++code) even4.push_back(code);
  for (int code = -127; code < 128; ++code) even8.push_back(code);
  const std::vector<int> uneven = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  for (const RoundedValues& values : {round_to(even4, 4, 2.5), round_to(even8, 8, 30), round_to(uneven, 8, 40)}) {
    CAPTURE(values.error.ratio());
    CHECK(estimated_rounding(values.codes).ratio() == doctest::Approx(values.error.ratio()).epsilon(0.08));
  }
}

TEST_CASE("the estimated error is 0 without values or with codes that are all equal") {
  CHECK(RelativeError{}.ratio() == 0);
  CHECK(estimated_rounding(round_to({3}, 4, 1).codes).ratio() == 0);
  CHECK(percent_text(0.0043) == "0.43 %");
  CHECK(percent_text(0.049) == "4.9 %");
}

/// Writes a model whose first layer has its up_proj in IQ2_XXS.
std::filesystem::path write_grid_model(const std::filesystem::path& directory) {
  constexpr std::int64_t kHiddenSize = 256;
  constexpr std::uint32_t kIq2Xxs = 16;
  const test::TinyModel model = test::random_model(
      {.vocab = 40, .hidden = kHiddenSize, .layers = 2, .heads = 4, .kv_heads = 2, .head_size = 64, .mlp = 64});
  const ModelSource source(model.write(directory / "m"));
  test::GgufModel gguf(source, source.architecture());
  std::mt19937 random(5);
  std::string blocks;
  for (int row = 0; row < 64; ++row) {
    blocks += test::raw(std::uint16_t{0x1C00});  // a scale of 2^-8
    for (int i = 0; i < 64; ++i) blocks += static_cast<char>(random() % 256);
  }
  gguf.store_blocks("blk.0.ffn_up.weight", kIq2Xxs, blocks);
  return test::write_file(directory / "m.gguf", gguf.bytes({{"general.architecture", "llama"},
                                                            {"llama.block_count", 2},
                                                            {"llama.context_length", 64},
                                                            {"llama.embedding_length", kHiddenSize},
                                                            {"llama.feed_forward_length", 64},
                                                            {"llama.attention.head_count", 4},
                                                            {"llama.attention.head_count_kv", 2},
                                                            {"llama.attention.key_length", 64},
                                                            {"llama.attention.layer_norm_rms_epsilon", 1e-5}}));
}

TEST_CASE("blocks that no kernel multiplies become INT8, which is reported; with wider inputs they stay floats") {
  const test::TemporaryDirectory directory;
  const std::filesystem::path path = write_grid_model(directory / "");
  const ModelSource floats(path);
  const FloatWeights expected = floats.float_weights(Role::kUp, 0);
  ModelSource int8(path);
  int8.set_code_activations(ActivationType::kInt8);
  const Linear linear = int8.linear(Role::kUp, 0);
  const auto* matrix = std::get_if<kernels::QuantizedMatrix>(&linear.weights);
  REQUIRE(matrix != nullptr);
  RelativeError error;
  std::vector<float> row(expected.cols);
  for (std::size_t r = 0; r < expected.rows; ++r) {
    matrix->decode_row(r, row.data());
    for (std::size_t c = 0; c < row.size(); ++c) {
      const double value = expected.values[r * row.size() + c];
      error += {std::pow(double{row[c]} - value, 2), value * value};
    }
  }
  CHECK(error.ratio() > 0);
  CHECK(error.ratio() < 0.01);
  const RoundedBlocks rounded = rounded_blocks(floats);
  CHECK(rounded.matrices == 1);
  CHECK(rounded.type == "IQ2_XXS");
  CHECK(rounded.file_bytes == 64 * 66);
  CHECK(rounded.bytes == 64 * (256 + 2 * 8));
  CHECK(rounded.error.ratio() == doctest::Approx(error.ratio()).epsilon(0.05));

  std::vector<std::string> told;
  const auto tell = [&](const std::string& line) { told.push_back(line); };
  const Model loaded(path, FloatLayout::kRows, {.tell = tell});
  REQUIRE(told.size() == 1);
  CHECK(told.front() == rounded.text());
  CHECK(told.front().starts_with(
      "1 matrix in blocks that no kernel multiplies (IQ2_XXS) become INT8: 17.4 kB in memory instead of 4.22 kB, "));
  for (const auto activations : {ActivationType::kInt16, ActivationType::kFloat}) {
    const Model exact(path, FloatLayout::kRows, {.activations = activations, .tell = tell});
  }
  CHECK(told.size() == 1);
  ModelSource int16(path);
  int16.set_code_activations(ActivationType::kInt16);
  CHECK(std::holds_alternative<FloatMatrixHolder>(int16.linear(Role::kUp, 0).weights));
}

}  // namespace
}  // namespace ballast::model
