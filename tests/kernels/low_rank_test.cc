#include "kernels/matrix/low_rank.h"

#include <cmath>
#include <cstddef>
#include <vector>

#include "kernel_cases.h"

namespace ballast::kernels {
namespace {

struct LowRankShape {
  std::size_t rows, cols, rank;
};

/// Two matrices that read the same rows, each some of them.
struct LowRankCase {
  std::vector<LowRankShape> shapes;
  std::vector<std::vector<std::size_t>> row_indices;
  FloatType type;
  std::size_t m = 0;
  std::vector<std::vector<float>> up{}, down{}, bias{}, before{};
  std::vector<LowRankMatrix> matrices{};
  std::vector<float> src{};

  void fill() {
    src = random_floats(m * shapes.front().cols, 1);
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const auto [rows, cols, rank] = shapes[i];
      up.push_back(random_floats(rows * rank, static_cast<unsigned>(10 + i)));
      down.push_back(random_floats(rank * cols, static_cast<unsigned>(20 + i)));
      bias.push_back(random_floats(rows, static_cast<unsigned>(30 + i)));
      before.push_back(random_floats(m * stride(i), static_cast<unsigned>(40 + i)));
      matrices.emplace_back(type, rows, cols, rank, up[i].data(), down[i].data());
    }
  }
  std::size_t stride(std::size_t i) const { return shapes[i].rows + 3; }

  std::vector<std::vector<float>> sums() const {
    std::vector<std::vector<float>> dst = before;
    std::vector<LowRankProduct> products;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      products.push_back({.matrix = &matrices[i],
                          .bias = i == 0 ? bias[i].data() : nullptr,
                          .row_indices = row_indices[i],
                          .dst = dst[i].data(),
                          .stride = stride(i)});
    }
    LowRankScratch scratch;
    add_low_rank(products, src.data(), scratch);
    return dst;
  }

  float stored(float value) const {
    return type == FloatType::kF32 ? value : reference::half_to_float(reference::float_to_half(value, type), type);
  }

  std::vector<std::vector<float>> expected() const {
    std::vector<std::vector<float>> dst = before;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const auto [rows, cols, rank] = shapes[i];
      for (const std::size_t row : row_indices[i]) {
        for (std::size_t r = 0; r < rows; ++r) {
          double sum = i == 0 ? bias[i][r] : 0.0F;
          for (std::size_t k = 0; k < rank; ++k) {
            double inner = 0;
            for (std::size_t c = 0; c < cols; ++c) inner += double{stored(down[i][k * cols + c])} * src[row * cols + c];
            sum += double{stored(up[i][r * rank + k])} * inner;
          }
          dst[i][row * stride(i) + r] += static_cast<float>(sum);
        }
      }
    }
    return dst;
  }
};

LowRankCase make_case(std::size_t cols, FloatType type) {
  LowRankCase c = {.shapes = {{33, cols, 1}, {600, cols, 16}, {7, cols, 6}},
                   .row_indices = {{0, 1, 2, 3, 4, 5, 6}, {6}, {1, 5, 3}},
                   .type = type,
                   .m = 7};
  c.fill();
  return c;
}

TEST_CASE("matrices of low rank are added to the rows that they are for, and to nothing else, on every target") {
  for (const FloatType type : {FloatType::kF32, FloatType::kBF16}) {
    for (const std::size_t cols : kVectorSizes) {
      const LowRankCase c = make_case(cols, type);
      const std::vector<std::vector<float>> expected = c.expected();
      for_every_target([&] {
        CAPTURE(cols);
        const std::vector<std::vector<float>> sums = c.sums();
        for (std::size_t i = 0; i < sums.size(); ++i) CHECK(relative_error(sums[i], expected[i]) < 2e-6);
        CHECK(sums[1][0] == c.before[1][0]);
      });
    }
  }
}

TEST_CASE("what matrices of low rank add to a row is the same bits for any other rows and any number of threads") {
  for (const FloatType type : {FloatType::kF32, FloatType::kBF16}) {
    LowRankCase c = make_case(576, type);
    for_every_target([&] {
      c.row_indices = {{0, 1, 2, 3, 4, 5, 6}, {0, 1, 2, 3, 4, 5, 6}, {0, 1, 2, 3, 4, 5, 6}};
      const std::vector<std::vector<float>> all = with_threads(1, [&] { return c.sums(); });
      for (const int threads : {2, 5}) CHECK(with_threads(threads, [&] { return c.sums(); }) == all);
      for (const std::size_t row : {0, 3, 6}) {
        c.row_indices = {{row}, {row}, {row}};
        const std::vector<std::vector<float>> one = c.sums();
        for (std::size_t i = 0; i < one.size(); ++i) {
          for (std::size_t r = 0; r < c.shapes[i].rows; ++r) {
            CHECK(one[i][row * c.stride(i) + r] == all[i][row * c.stride(i) + r]);
          }
        }
      }
    });
  }
}

}  // namespace
}  // namespace ballast::kernels
