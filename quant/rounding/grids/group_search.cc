#include "quant/rounding/grids/group_search.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "quant/rounding/grids/block_type.h"
#include "quant/rounding/grids/half_float.h"

namespace ballast::quant {

namespace {

bool is_blocks(const WeightFormat& format) {
  return format.kind == WeightFormat::Kind::kBlocks;
}

/// MLX's formats have a minimum below 8 bits. At 8 bits a minimum saves next to nothing, and kernels multiply symmetric
/// integers faster.
bool is_affine(const WeightFormat& format) {
  return format.kind == WeightFormat::Kind::kAffine && format.bits < 8;
}

Minimums minimums_of(const WeightFormat& format) {
  if (is_affine(format)) return Minimums::kAny;
  if (!is_blocks(format) || !block_type(format.block_type).has_minimums) return Minimums::kNone;
  return block_type(format.block_type).groups_of_scale == 0 ? Minimums::kAny : Minimums::kNotNegative;
}

std::span<const float> few_scales(const WeightFormat& format) {
  return is_blocks(format) ? block_type(format.block_type).scales : std::span<const float>();
}

bool has_two_levels(const WeightFormat& format) {
  return is_blocks(format) ? block_type(format.block_type).groups_of_scale != 0 : format.scale_bits == 8;
}

}  // namespace

GroupSearch::GroupSearch(const WeightFormat& format, DType scale_type, GridMethod method)
    : format_(format),
      scale_type_(is_blocks(format) ? DType::kF16 : scale_type),
      method_(method),
      two_levels_(has_two_levels(format)),
      few_scales_(few_scales(format)),
      real_(QuantRange(format), minimums_of(format)) {}

QuantParams GroupSearch::best_grid(const WeightedGroup& group) const {
  const bool search = method_ == GridMethod::kSearch;
  if (is_affine(format_) && search) return searched_minimum_grid(group);
  const bool is_real = is_blocks(format_) || is_affine(format_) || format_.codebook != CodebookId::kUniform;
  if (!is_real) return integer_grid(group);
  const QuantParams grid = search ? real_.searched_grid(group) : real_.range_grid(group);
  if (!few_scales_.empty()) return grid_of_few(group, grid);
  return two_levels_ ? grid : rounded_grid(group, grid);
}

QuantParams GroupSearch::in_16_bits(QuantParams grid) const {
  grid.scale = as_half(grid.scale, scale_type_);
  grid.minimum = as_half(grid.minimum, scale_type_);
  return grid;
}

QuantParams GroupSearch::grid_of_few(const WeightedGroup& group, const QuantParams& grid) const {
  // Codes are symmetric, so the sign of a scale does not matter; the next scale up has the whole range.
  const auto above = [&](float scale) {
    const auto found = std::ranges::lower_bound(few_scales_, std::abs(scale));
    return std::min(static_cast<std::size_t>(found - few_scales_.begin()), few_scales_.size() - 1);
  };
  const auto with_scale = [&](std::size_t index) {
    return QuantParams{few_scales_[index], range().symmetric_zero_point};
  };
  const std::size_t whole = above(real_.range_grid(group).scale);
  QuantParams best = with_scale(whole);
  if (method_ == GridMethod::kRange) return best;
  float least = weighted_error(group, best, range());
  const std::size_t wanted = above(grid.scale);
  const auto below = [](std::size_t index) { return index == 0 ? 0 : index - 1; };
  for (const std::size_t index : {below(whole), wanted, below(wanted)}) {
    const float error = weighted_error(group, with_scale(index), range());
    if (!(error < least)) continue;
    least = error;
    best = with_scale(index);
  }
  return best;
}

QuantParams GroupSearch::rounded_grid(const WeightedGroup& group, const QuantParams& grid) const {
  const QuantParams rounded = in_16_bits(grid);
  if (method_ == GridMethod::kRange) return rounded;
  const QuantParams plain = in_16_bits(real_.range_grid(group));
  const float error = weighted_error(group, rounded, range());
  return weighted_error(group, plain, range()) < error ? plain : rounded;
}

QuantParams GroupSearch::integer_grid(const WeightedGroup& group) const {
  const QuantParams start = format_.symmetric ? symmetric_range_grid(group) : zero_point_range_grid(group);
  if (method_ == GridMethod::kRange) return start;
  QuantParams found = search_grid(group, start, format_);
  found.scale = as_half(found.scale, scale_type_);
  // Rounding the scale must not have made it worse than what the search began with.
  if (found.scale == 0) return start;
  return weighted_error(group, found, range()) < weighted_error(group, start, range()) ? found : start;
}

QuantParams GroupSearch::symmetric_range_grid(const WeightedGroup& group) const {
  const int zero = range().symmetric_zero_point;
  float extreme = 0;
  for (const float value : group.values) {
    if (std::abs(value) > std::abs(extreme)) extreme = value;
  }
  const QuantParams even = {as_half(std::abs(extreme) / static_cast<float>(zero - 1), scale_type_), zero};
  if (format_.bits == 8 || format_.scale_bits == 8) return even;
  // Few bits: one more step on the side of the extreme value can be worth more than symmetry.
  const QuantParams uneven = {as_half(extreme / static_cast<float>(-zero), scale_type_), zero};
  const auto squared_error = [&](const QuantParams& grid) {
    double error = 0;
    for (const float value : group.values) {
      const double difference = double{value} - double{grid.scale} * (code_of(value, grid, range()) - grid.zero_point);
      error += difference * difference;
    }
    return error;
  };
  return squared_error(uneven) < squared_error(even) ? uneven : even;
}

QuantParams GroupSearch::zero_point_range_grid(const WeightedGroup& group) const {
  const float low = lowest_value(group);
  float high = 0;
  for (const float value : group.values) high = std::max(high, value);
  QuantParams grid;
  grid.scale = as_half((high - low) / static_cast<float>(range().qmax), scale_type_);
  if (grid.scale != 0) {
    grid.zero_point = std::clamp(static_cast<int>(std::nearbyint(-low / grid.scale)), 0, range().qmax);
  }
  return grid;
}

QuantParams GroupSearch::searched_minimum_grid(const WeightedGroup& group) const {
  BestGrid best(group, in_16_bits(real_.range_grid(group)), range());
  const auto add = [&](float scale, float minimum) { best.add({scale, 0, as_half(minimum, scale_type_)}); };
  const QuantParams exact = real_.searched_grid(group);
  if (!(exact.scale > kSmallestScale)) return best.grid();
  // BF16 has steps of up to a 128th: a neighbour of the nearest scale may be better, with the minimum that fits it.
  const int nearest = half_bits(exact.scale, scale_type_);
  for (const int bits : {nearest, nearest - 1, nearest + 1}) {
    const float scale = bits < 0 ? 0 : from_half(static_cast<std::uint16_t>(bits), scale_type_);
    if (!(scale > kSmallestScale) || !std::isfinite(scale)) continue;
    add(scale, exact.minimum);
    LeastSquares sums;
    sums.add(group, {scale, 0, exact.minimum}, range(), 1, 1);
    add(scale, sums.minimum_beside(scale));
  }
  best.settle();
  return best.grid();
}

}  // namespace ballast::quant
