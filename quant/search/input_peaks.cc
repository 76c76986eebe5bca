#include "quant/search/input_peaks.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace ballast::quant {

namespace {

constexpr std::size_t kFine = InputPeaks::kGroupSizes.front();

/// The largest squares of a group, and where the first two stand.
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
  std::span<float> excess = sum_.shard().first(cols_);
  std::span<float> fine = sum_.shard().subspan(cols_, groups(kFine));
  std::vector<float> row_peaks(fine.size());
  for (std::size_t r = 0; r < rows; ++r) {
    const std::span<const float> row(inputs + r * cols_, cols_);
    const float weight = weights.empty() ? 1.0F : weights[r] * weights[r];
    for (std::size_t g = 0; g < fine.size(); ++g) {
      const std::size_t first = g * kFine;
      const Top top = top_of(row.subspan(first, std::min(kFine, cols_ - first)));
      row_peaks[g] = weight * top.squares[0];
      fine[g] += row_peaks[g];
      const float alone = top.squares[0] - top.squares[1];
      const float half = (top.squares[0] - top.squares[2]) / 2;
      excess[first + top.columns[0]] += weight * std::max(alone, half);
      if (half > alone) excess[first + top.columns[1]] += weight * half;
    }
    std::span<float> coarse = sum_.shard().subspan(cols_ + fine.size());
    for (const std::size_t group_size : std::span(InputPeaks::kGroupSizes).subspan(1)) {
      const std::size_t together = group_size / kFine;
      for (std::size_t g = 0; g < groups(group_size); ++g) {
        const std::size_t first = g * together;
        const std::size_t end = std::min(first + together, row_peaks.size());
        coarse[g] += *std::max_element(row_peaks.begin() + static_cast<std::ptrdiff_t>(first),
                                       row_peaks.begin() + static_cast<std::ptrdiff_t>(end));
      }
      coarse = coarse.subspan(groups(group_size));
    }
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
