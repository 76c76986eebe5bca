#include "quant/rounding/scales/row_scales.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "formats/scale_codes.h"
#include "kernels/matrix/float_matrix.h"
#include "quant/rounding/grids/half_float.h"

namespace ballast::quant {

namespace {

/// Returns the lowest code whose scale is at least `scale`, or the highest.
int code_from(std::span<const float> scales, float scale) {
  const auto above = std::ranges::lower_bound(scales, scale);
  return static_cast<int>(std::min<std::ptrdiff_t>(above - scales.begin(), std::ssize(scales) - 1));
}

}  // namespace

RowScales::Scales RowScales::scales_up_to(float largest) const {
  const auto kind = has_codebook_ ? formats::ScaleCodes::kSigned : formats::ScaleCodes::kUnsigned;
  const int count = formats::scale_codes(kind);
  const float wanted = largest * static_cast<float>(count) / static_cast<float>(count - 1);
  Scales scales = {.row_scale = half_bits(wanted, scale_type_)};
  // One up where it was rounded down, so that the highest code reaches the largest scale.
  if (from_half(scales.row_scale, scale_type_) < wanted) ++scales.row_scale;

  std::vector<std::uint8_t> codes(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint8_t>(i);
  std::vector<std::uint16_t> bits(codes.size());
  formats::decode_scales(scales.row_scale, codes, kind, scale_type_, bits);
  scales.of_codes.resize(codes.size());
  kernels::to_float(bits.data(), formats::scale_float_type(scale_type_), bits.size(), scales.of_codes.data());
  return scales;
}

void RowScales::store(std::span<const WeightedGroup> groups, RowGrids& grids) const {
  float largest = 0;
  for (const QuantParams& grid : grids.groups) largest = std::max(largest, std::abs(grid.scale));
  const Scales scales = scales_up_to(largest);
  grids.row_scale = scales.row_scale;
  grids.scale_codes.resize(grids.groups.size());
  for (std::size_t g = 0; g < grids.groups.size(); ++g) {
    grids.groups[g] = fitted_grid(groups[g], scales.of_codes, grids.groups[g], grids.scale_codes[g]);
  }
}

QuantParams RowScales::fitted_grid(const WeightedGroup& group, std::span<const float> scales, const QuantParams& wanted,
                                   std::uint8_t& scale_code) const {
  const QuantParams none = {0, symmetric_ ? range_.symmetric_zero_point : 0};
  scale_code = 0;
  if (wanted.scale == 0) return none;
  const int sign = wanted.scale < 0 ? -1 : 1;
  // The grid's lower end stays where the values' or the search put it.
  const float low =
      method_ == GridMethod::kRange ? lowest_value(group) : -static_cast<float>(wanted.zero_point) * wanted.scale;
  const auto with_code = [&](int code, int shift) {
    const float scale = scales[static_cast<std::size_t>(code)];
    if (symmetric_) return QuantParams{static_cast<float>(sign) * scale, range_.symmetric_zero_point};
    if (scale == 0) return none;
    return QuantParams{scale, std::clamp(static_cast<int>(std::nearbyint(-low / scale)) + shift, 0, range_.qmax)};
  };

  // The next scale up still spans the whole range.
  const int first = code_from(scales, std::abs(wanted.scale));
  QuantParams best = with_code(first, 0);
  scale_code = static_cast<std::uint8_t>(sign * first);
  if (method_ == GridMethod::kRange) return best;
  const int top = static_cast<int>(scales.size()) - 1;
  float least = weighted_error(group, best, range_);
  for (int code = std::max(first - 2, 0); code <= std::min(first + 1, top); ++code) {
    for (const int shift : {0, -1, 1}) {
      if (shift != 0 && symmetric_) continue;
      const QuantParams grid = with_code(code, shift);
      const float error = weighted_error(group, grid, range_);
      if (!(error < least)) continue;
      least = error;
      best = grid;
      scale_code = static_cast<std::uint8_t>(sign * code);
    }
  }
  return best;
}

}  // namespace ballast::quant
