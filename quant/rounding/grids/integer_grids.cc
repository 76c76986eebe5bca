#include "quant/rounding/grids/integer_grids.h"

#include <algorithm>
#include <cmath>

#include "quant/rounding/grids/grid_search.h"
#include "quant/rounding/half_float.h"

namespace ballast::quant {

std::vector<float> column_weights(const GridColumns& columns) {
  std::vector<float> weights(columns.quantized_mask.size());
  for (std::size_t c = 0; c < weights.size(); ++c) {
    if (columns.quantized_mask[c] != 0) weights[c] = columns.importance.empty() ? 1.0F : columns.importance[c];
  }
  return weights;
}

IntegerGridFinder::IntegerGridFinder(const WeightFormat& format, DType scale_type, GridMethod method,
                                     const GridColumns& columns)
    : format_(format),
      range_(format),
      scale_type_(scale_type),
      method_(method),
      group_size_(grid_group_size(format, columns.quantized_mask.size())),
      quantized_mask_(columns.quantized_mask.begin(), columns.quantized_mask.end()),
      weights_(column_weights(columns)) {}

void IntegerGridFinder::find(std::span<const float> values, RowGrids& grids) {
  const std::size_t groups = (values.size() + group_size_ - 1) / group_size_;
  grids.groups.resize(groups);
  for (std::size_t g = 0; g < groups; ++g) {
    const Group here = group(values, g);
    grids.groups[g] = method_ == GridMethod::kSearch ? searched_grid(here) : range_grid(here);
  }
  if (format_.scale_bits == 8) share_row_scale(values, grids);
}

IntegerGridFinder::Group IntegerGridFinder::group(std::span<const float> values, std::size_t index) const {
  const std::size_t begin = index * group_size_;
  const std::size_t size = std::min(group_size_, values.size() - begin);
  return {values.subspan(begin, size), std::span(quantized_mask_).subspan(begin, size),
          std::span(weights_).subspan(begin, size)};
}

QuantParams IntegerGridFinder::range_grid(const Group& group) const {
  return format_.symmetric ? symmetric_range_grid(group) : asymmetric_range_grid(group);
}

QuantParams IntegerGridFinder::symmetric_range_grid(const Group& group) const {
  float extreme = 0;
  for (std::size_t i = 0; i < group.values.size(); ++i) {
    if (group.quantized_mask[i] != 0 && std::abs(group.values[i]) > std::abs(extreme)) extreme = group.values[i];
  }
  const QuantParams even = {
      as_half(std::abs(extreme) / static_cast<float>(range_.symmetric_zero_point - 1), scale_type_),
      range_.symmetric_zero_point};
  if (format_.bits == 8 || format_.scale_bits == 8) return even;
  // Few bits: one more step on the side of the extreme value can be worth more than symmetry.
  const QuantParams uneven = {as_half(extreme / static_cast<float>(-range_.symmetric_zero_point), scale_type_),
                              range_.symmetric_zero_point};
  const auto squared_error = [&](const QuantParams& grid) {
    double error = 0;
    for (std::size_t i = 0; i < group.values.size(); ++i) {
      if (group.quantized_mask[i] == 0) continue;
      const double difference =
          double{group.values[i]} - double{grid.scale} * (code_of(group.values[i], grid, range_) - grid.zero_point);
      error += difference * difference;
    }
    return error;
  };
  return squared_error(uneven) < squared_error(even) ? uneven : even;
}

float IntegerGridFinder::lowest_value(const Group& group) {
  float low = 0;
  for (std::size_t i = 0; i < group.values.size(); ++i) {
    if (group.quantized_mask[i] != 0) low = std::min(low, group.values[i]);
  }
  return low;
}

QuantParams IntegerGridFinder::asymmetric_range_grid(const Group& group) const {
  const float low = lowest_value(group);
  float high = 0;
  for (std::size_t i = 0; i < group.values.size(); ++i) {
    if (group.quantized_mask[i] != 0) high = std::max(high, group.values[i]);
  }
  QuantParams grid;
  grid.scale = as_half((high - low) / static_cast<float>(range_.qmax), scale_type_);
  if (grid.scale != 0) {
    grid.zero_point = std::clamp(static_cast<int>(std::nearbyint(-low / grid.scale)), 0, range_.qmax);
  }
  return grid;
}

QuantParams IntegerGridFinder::searched_grid(const Group& group) const {
  const WeightedGroup weighted = {group.values, group.weights};
  const QuantParams start = range_grid(group);
  QuantParams found = search_grid(weighted, start, format_);
  found.scale = as_half(found.scale, scale_type_);
  // Rounding the scale must not make it worse than the starting grid.
  if (found.scale == 0) return start;
  return weighted_error(weighted, found, range_) < weighted_error(weighted, start, range_) ? found : start;
}

void IntegerGridFinder::share_row_scale(std::span<const float> values, RowGrids& grids) {
  float largest = 0;
  for (const QuantParams& grid : grids.groups) largest = std::max(largest, grid.scale);
  const SharedScales scales(formats::ScaleCodes::kUnsigned, scale_type_, largest);
  grids.row_scale = scales.row_scale();
  grids.scale_codes.resize(grids.groups.size());
  for (std::size_t g = 0; g < grids.groups.size(); ++g) {
    grids.groups[g] = fit_to_shared_scales(group(values, g), scales, grids.groups[g], grids.scale_codes[g]);
  }
}

QuantParams IntegerGridFinder::fit_to_shared_scales(const Group& group, const SharedScales& scales,
                                                    const QuantParams& wanted, std::uint8_t& scale_code) const {
  scale_code = 0;
  const QuantParams none = {0, format_.symmetric ? range_.symmetric_zero_point : 0};
  if (wanted.scale == 0) return none;
  const int first = scales.code_from(wanted.scale);
  // The grid's lower end stays where the values' or the search put it.
  const float low =
      method_ == GridMethod::kRange ? lowest_value(group) : -static_cast<float>(wanted.zero_point) * wanted.scale;
  const auto with_code = [&](int code, int shift) {
    const float scale = scales.scale(code);
    if (scale == 0) return none;
    if (format_.symmetric) return QuantParams{scale, range_.symmetric_zero_point};
    return QuantParams{scale, std::clamp(static_cast<int>(std::nearbyint(-low / scale)) + shift, 0, range_.qmax)};
  };

  // The next scale up still spans the whole range.
  QuantParams best = with_code(first, 0);
  scale_code = static_cast<std::uint8_t>(first);
  if (method_ == GridMethod::kRange) return best;
  const WeightedGroup weighted = {group.values, group.weights};
  float least = weighted_error(weighted, best, range_);
  for (int code = std::max(first - 2, 0); code <= std::min(first + 1, scales.top_code()); ++code) {
    for (const int shift : {0, -1, 1}) {
      if (shift != 0 && format_.symmetric) continue;
      const QuantParams grid = with_code(code, shift);
      const float error = weighted_error(weighted, grid, range_);
      if (!(error < least)) continue;
      least = error;
      best = grid;
      scale_code = static_cast<std::uint8_t>(code);
    }
  }
  return best;
}

}  // namespace ballast::quant
