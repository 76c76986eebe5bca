#include "quant/rounding/input_peaks.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace ballast::quant {

namespace {

constexpr std::size_t kFine = InputPeaks::kGroupSizes.front();
constexpr std::size_t kCoarsest = InputPeaks::kGroupSizes.back();

/// The largest squares of a group, and the positions of the first two.
struct Top {
  std::array<float, 3> squares{};
  std::array<std::size_t, 2> columns{};
};

Top top_of(std::span<const float> values) {
  Top top;
  for (std::size_t c = 0; c < values.size(); ++c) {
    const float square = values[c] * values[c];
    if (square > top.squares[0]) {
      top = {{square, top.squares[0], top.squares[1]}, {c, top.columns[0]}};
    } else if (square > top.squares[1]) {
      top = {{top.squares[0], square, top.squares[1]}, {top.columns[0], c}};
    } else if (square > top.squares[2]) {
      top.squares[2] = square;
    }
  }
  return top;
}

}  // namespace

const std::vector<float>& InputPeaks::of_group_size(std::size_t group_size) const {
  const auto it = std::ranges::find(kGroupSizes, group_size);
  assert(it != kGroupSizes.end());
  return squares[static_cast<std::size_t>(it - kGroupSizes.begin())];
}

PeakSum::PeakSum(std::size_t cols, jobs::SumOrder order)
    : cols_(cols),
      sum_(
          [&] {
            std::size_t size = cols;
            for (const std::size_t group_size : InputPeaks::kGroupSizes) size += groups(group_size);
            return size;
          }(),
          order) {}

void PeakSum::add(const float* inputs, std::size_t rows, std::span<const float> weights) {
  const std::span<float> shard = sum_.shard();
  // Each thread has separate columns: sums are computed in the order of the rows.
#pragma omp parallel for
  for (std::size_t begin = 0; begin < cols_; begin += kCoarsest) {
    for (std::size_t r = 0; r < rows; ++r) {
      const std::span<const float> values(inputs + r * cols_ + begin, std::min(kCoarsest, cols_ - begin));
      add(values, begin, weights.empty() ? 1.0F : weights[r] * weights[r], shard);
    }
  }
}

void PeakSum::add(std::span<const float> values, std::size_t begin, float weight, std::span<float> shard) const {
  float* excess = shard.data() + begin;
  float* squares = shard.data() + cols_;
  std::array<float, kCoarsest / kFine> peaks{};
  const std::size_t count = (values.size() + kFine - 1) / kFine;
  for (std::size_t g = 0; g < count; ++g) {
    const std::size_t first = g * kFine;
    const Top top = top_of(values.subspan(first, std::min(kFine, values.size() - first)));
    peaks[g] = weight * top.squares[0];
    const float alone = top.squares[0] - top.squares[1];
    const float half = (top.squares[0] - top.squares[2]) / 2;
    excess[first + top.columns[0]] += weight * std::max(alone, half);
    if (half > alone) excess[first + top.columns[1]] += weight * half;
  }
  for (const std::size_t group_size : InputPeaks::kGroupSizes) {
    const std::size_t together = group_size / kFine;
    for (std::size_t g = 0; g < count; g += together) {
      squares[(begin + g * kFine) / group_size] +=
          *std::max_element(peaks.begin() + g, peaks.begin() + std::min(g + together, count));
    }
    squares += groups(group_size);
  }
}

InputPeaks PeakSum::finish(Ranks& ranks) {
  const std::vector<float> sums = sum_.finish(ranks);
  std::span<const float> rest = sums;
  const auto take = [&](std::size_t size) {
    const std::span<const float> part = rest.first(size);
    rest = rest.subspan(size);
    return std::vector<float>(part.begin(), part.end());
  };
  InputPeaks peaks;
  peaks.excess = take(cols_);
  for (std::size_t i = 0; i < InputPeaks::kGroupSizes.size(); ++i) {
    peaks.squares[i] = take(groups(InputPeaks::kGroupSizes[i]));
  }
  return peaks;
}

}  // namespace ballast::quant
