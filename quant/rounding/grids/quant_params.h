// The grids of a matrix: the values of codes for each group of a row, as they will be read back.
#ifndef BALLAST_QUANT_ROUNDING_GRIDS_QUANT_PARAMS_H_
#define BALLAST_QUANT_ROUNDING_GRIDS_QUANT_PARAMS_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ballast/recipe.h"

namespace ballast::quant {

/// A group's grid: the values (code - zero_point) * scale - minimum. Scale 0: all codes have the value -minimum.
struct QuantParams {
  float scale = 0;
  int zero_point = 0;
  float minimum = 0;
};

/// The codes nearest to the numbers from 0 to 256, if not all codes exist: an entry for all numbers between two halves.
struct NearestCodes {
  /// The codes are a table's values plus a zero point; midway between two the higher one is used.
  constexpr NearestCodes(std::span<const std::int8_t> values, int zero_point) {
    for (std::size_t half = 0; half < codes.size(); ++half) {
      const int in_quarters = 2 * static_cast<int>(half) + 1 - 4 * zero_point;  // the middle of the entry's interval
      std::int8_t best = values[0];
      for (const std::int8_t value : values) {
        const int distance = in_quarters - 4 * value;
        const int least = in_quarters - 4 * best;
        if ((distance < 0 ? -distance : distance) < (least < 0 ? -least : least)) best = value;
      }
      codes[half] = static_cast<std::uint8_t>(best + zero_point);
      steps[half] = best;
    }
  }

  std::array<std::uint8_t, 512> codes{};
  std::array<float, 512> steps{};  ///< from the zero point
};

/// The codes that a format has.
struct QuantRange {
  explicit QuantRange(const WeightFormat& format);

  int qmin;  ///< 0, or 1 for symmetric 8-bit codes: -127 .. 127
  int qmax;
  int symmetric_zero_point;  ///< for grids without their own
  int count;                 ///< all codes from qmin to qmax, or those of a table

  /// For a format without some codes between qmin and qmax.
  const NearestCodes* nearest = nullptr;
};

/// Returns the code with the nearest value; for whole numbers ties to even.
inline int code_of(float value, const QuantParams& grid, const QuantRange& range) {
  const auto low = static_cast<float>(range.qmin);
  const auto high = static_cast<float>(range.qmax);
  const auto zero = static_cast<float>(grid.zero_point);
  const float steps = grid.scale == 0 ? 0 : (value + grid.minimum) / grid.scale;
  if (range.nearest == nullptr) return static_cast<int>(std::clamp(std::nearbyint(steps) + zero, low, high));
  return range.nearest->codes[static_cast<std::size_t>(2 * std::clamp(steps + zero, low, high))];
}

inline float value_of(int code, const QuantParams& grid) {
  return static_cast<float>(code - grid.zero_point) * grid.scale - grid.minimum;
}

/// The grids of one row, in order of their groups.
struct RowGrids {
  std::vector<QuantParams> groups;
  // With 8-bit scales, the parts of the scales (formats/scale_codes.h); else unused.
  std::uint16_t row_scale = 0;            ///< in the 16-bit type of the scales
  std::vector<std::uint8_t> scale_codes;  ///< [groups]
  // In blocks, the parts of scales and minimums, as in kernels::QuantizedRow; else unused.
  std::vector<std::uint16_t> block_scales;
  std::vector<std::uint16_t> block_minimums;
  std::vector<std::int8_t> factors;
  std::vector<std::int8_t> minimum_factors;
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_ROUNDING_GRIDS_QUANT_PARAMS_H_
