#include "quant/rounding/grids/nonlinear_grids.h"

#include <algorithm>
#include <cmath>

#include "quant/rounding/grids/integer_grids.h"
#include "quant/rounding/half_float.h"

namespace ballast::quant {

NonlinearGridFinder::NonlinearGridFinder(const WeightFormat& format, DType scale_type, GridMethod method,
                                         const GridColumns& columns)
    : format_(format),
      search_(QuantRange(format), Minimums::kNone),
      scale_type_(scale_type),
      method_(method),
      quantized_mask_(columns.quantized_mask.begin(), columns.quantized_mask.end()),
      weights_(column_weights(columns)) {}

void NonlinearGridFinder::find(std::span<const float> values, RowGrids& grids) {
  values_.assign(values.begin(), values.end());
  for (std::size_t c = 0; c < values_.size(); ++c) {
    if (quantized_mask_[c] == 0) values_[c] = 0;
  }
  grids.groups.resize((values.size() + format_.group_size - 1) / format_.group_size);
  for (std::size_t g = 0; g < grids.groups.size(); ++g) grids.groups[g] = found_grid(group(g));
  if (format_.scale_bits == 8) share_row_scale(grids);
}

WeightedGroup NonlinearGridFinder::group(std::size_t index) const {
  const std::size_t begin = index * format_.group_size;
  const std::size_t size = std::min(format_.group_size, values_.size() - begin);
  return {std::span(values_).subspan(begin, size), std::span(weights_).subspan(begin, size)};
}

QuantParams NonlinearGridFinder::found_grid(const WeightedGroup& group) const {
  const bool search = method_ == GridMethod::kSearch;
  const QuantParams grid = search ? search_.searched_grid(group) : search_.range_grid(group);
  return format_.scale_bits == 8 ? grid : as_stored(group, grid);
}

QuantParams NonlinearGridFinder::as_stored(const WeightedGroup& group, QuantParams grid) const {
  grid.scale = as_half(grid.scale, scale_type_);
  if (method_ == GridMethod::kRange) return grid;
  QuantParams plain = search_.range_grid(group);
  plain.scale = as_half(plain.scale, scale_type_);
  const float error = weighted_error(group, grid, search_.range());
  return weighted_error(group, plain, search_.range()) < error ? plain : grid;
}

void NonlinearGridFinder::share_row_scale(RowGrids& grids) {
  float largest = 0;
  for (const QuantParams& grid : grids.groups) largest = std::max(largest, std::abs(grid.scale));
  const SharedScales scales(formats::ScaleCodes::kSigned, scale_type_, largest);
  grids.row_scale = scales.row_scale();
  grids.scale_codes.resize(grids.groups.size());
  for (std::size_t g = 0; g < grids.groups.size(); ++g) {
    const std::int8_t code = scale_code(group(g), scales, grids.groups[g].scale);
    grids.groups[g] = shared_grid(scales, code);
    grids.scale_codes[g] = static_cast<std::uint8_t>(code);
  }
}

QuantParams NonlinearGridFinder::shared_grid(const SharedScales& scales, std::int8_t code) const {
  const float magnitude = scales.scale(std::abs(code));
  return {code < 0 ? -magnitude : magnitude, search_.range().symmetric_zero_point};
}

std::int8_t NonlinearGridFinder::scale_code(const WeightedGroup& group, const SharedScales& scales,
                                            float wanted) const {
  const int sign = wanted < 0 ? -1 : 1;
  const int first = scales.code_from(std::abs(wanted));
  // The next scale up still spans the whole range.
  auto best = static_cast<std::int8_t>(sign * first);
  if (method_ == GridMethod::kRange || wanted == 0) return best;
  float least = weighted_error(group, shared_grid(scales, best), search_.range());
  for (const int magnitude : {first - 2, first - 1, first + 1}) {
    if (magnitude < 0 || magnitude > scales.top_code()) continue;
    const auto code = static_cast<std::int8_t>(sign * magnitude);
    const float error = weighted_error(group, shared_grid(scales, code), search_.range());
    if (!(error < least)) continue;
    least = error;
    best = code;
  }
  return best;
}

}  // namespace ballast::quant
