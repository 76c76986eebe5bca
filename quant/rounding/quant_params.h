// The integer grids that a matrix is rounded to: a scale and a zero for each group of a row, as they will be read back.
#ifndef BALLAST_QUANT_ROUNDING_QUANT_PARAMS_H_
#define BALLAST_QUANT_ROUNDING_QUANT_PARAMS_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ballast/recipe.h"
#include "ballast/tensor.h"

namespace ballast::quant {

/// A group's grid: the values (code - zero_point) * scale. Scale 0: the group is all zero.
struct QuantParams {
  float scale = 0;
  int zero_point = 0;
};

/// The codes that a format of integers has.
struct QuantRange {
  explicit QuantRange(const WeightFormat& format)
      : qmin(format.symmetric && format.bits == 8 ? 1 : 0),
        qmax((1 << format.bits) - 1),
        symmetric_zero_point(1 << (format.bits - 1)) {}

  int qmin;  ///< 0, or 1 for symmetric 8-bit codes: -127 .. 127
  int qmax;
  int symmetric_zero_point;
};

/// The code whose value is nearest, ties to even.
inline int code_of(float value, const QuantParams& grid, const QuantRange& range) {
  if (grid.scale == 0) return grid.zero_point;
  const float steps = std::nearbyint(value / grid.scale) + static_cast<float>(grid.zero_point);
  return static_cast<int>(std::clamp(steps, static_cast<float>(range.qmin), static_cast<float>(range.qmax)));
}

inline float value_of(int code, const QuantParams& grid) {
  return static_cast<float>(code - grid.zero_point) * grid.scale;
}

/// The grids of one row, in order of their groups.
struct RowGrids {
  std::vector<QuantParams> groups;
  // With 8-bit scales, what the scales are made of (model/source/scale_codes.h); else unused.
  std::uint16_t row_scale = 0;            ///< in the 16-bit type of the scales
  std::vector<std::uint8_t> scale_codes;  ///< [groups]
};

/// How grids are found.
enum class GridMethod {
  kRange,   ///< from a group's smallest value to its largest
  kSearch,  ///< of ranges around that, refined by least squares, the one with the smallest squared error
};

/// Finds the grids of a matrix's rows. Owns scratch: each thread needs one of its own.
class GridFinder {
 public:
  /// quantized_mask[cols] marks with 1 the columns that count. importance[cols] weighs the squared error of each column
  /// (the mean square of the input channel, the Hessian's diagonal): finite, not negative; empty means all ones; kRange
  /// ignores it. scale_type: kF16 or kBF16. Keeps copies.
  GridFinder(const WeightFormat& format, DType scale_type, GridMethod method,
             std::span<const std::uint8_t> quantized_mask, std::span<const float> importance = {});

  /// values[cols] of one row, finite. The result depends on the arguments alone.
  void find(std::span<const float> values, RowGrids& grids);

 private:
  struct Group {
    std::span<const float> values;
    std::span<const std::uint8_t> quantized_mask;
    std::span<const float> weights;
  };

  static float lowest_value(const Group& group);  ///< or 0
  Group group(std::span<const float> values, std::size_t index) const;
  QuantParams range_grid(const Group& group) const;
  QuantParams symmetric_range_grid(const Group& group) const;
  QuantParams asymmetric_range_grid(const Group& group) const;
  QuantParams searched_grid(const Group& group) const;
  void share_row_scale(std::span<const float> values, RowGrids& grids);
  QuantParams fit_to_shared_scales(const Group& group, const QuantParams& wanted, std::uint8_t& scale_code) const;

  WeightFormat format_;
  QuantRange range_;
  DType scale_type_;
  GridMethod method_;
  std::size_t group_size_;
  std::vector<std::uint8_t> quantized_mask_;
  std::vector<float> weights_;        ///< importance, 0 where a column does not count
  std::vector<float> shared_scales_;  ///< [256], what each scale code means in the present row
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_ROUNDING_QUANT_PARAMS_H_
