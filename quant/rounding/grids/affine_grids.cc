#include "quant/rounding/grids/affine_grids.h"

#include <cmath>
#include <cstdint>

#include "quant/rounding/grids/integer_grids.h"
#include "quant/rounding/half_float.h"

namespace ballast::quant {

AffineGridFinder::AffineGridFinder(const WeightFormat& format, DType scale_type, GridMethod method,
                                   const GridColumns& columns)
    : search_(QuantRange(format), Minimums::kAny),
      group_size_(format.group_size),
      scale_type_(scale_type),
      method_(method),
      weights_(column_weights(columns)) {}

void AffineGridFinder::find(std::span<const float> values, RowGrids& grids) {
  grids.groups.clear();
  for (std::size_t begin = 0; begin < values.size(); begin += group_size_) {
    const WeightedGroup group = {values.subspan(begin, group_size_), std::span(weights_).subspan(begin, group_size_)};
    grids.groups.push_back(method_ == GridMethod::kSearch ? searched_grid(group) : range_grid(group));
  }
}

QuantParams AffineGridFinder::range_grid(const WeightedGroup& group) const {
  const QuantParams exact = search_.range_grid(group);
  return {as_half(exact.scale, scale_type_), 0, as_half(exact.minimum, scale_type_)};
}

QuantParams AffineGridFinder::searched_grid(const WeightedGroup& group) const {
  BestGrid best(group, range_grid(group), search_.range());
  const auto add = [&](float scale, float minimum) { best.add({scale, 0, as_half(minimum, scale_type_)}); };
  const QuantParams exact = search_.searched_grid(group);
  if (!(exact.scale > kSmallestScale)) return best.grid();
  // BF16 has steps of up to a 128th: a neighbour of the nearest scale may be better, with the minimum that fits it.
  const int nearest = half_bits(exact.scale, scale_type_);
  for (const int bits : {nearest, nearest - 1, nearest + 1}) {
    const float scale = bits < 0 ? 0 : from_half(static_cast<std::uint16_t>(bits), scale_type_);
    if (!(scale > kSmallestScale) || !std::isfinite(scale)) continue;
    add(scale, exact.minimum);
    LeastSquares sums;
    sums.add(group, {scale, 0, exact.minimum}, search_.range(), 1, 1);
    add(scale, sums.minimum_beside(scale));
  }
  best.settle();
  return best.grid();
}

}  // namespace ballast::quant
