#include "quant/rounding/grids/nonlinear_grids.h"

#include <algorithm>
#include <cmath>

#include "kernels/matrix/float_matrix.h"
#include "model/source/scale_codes.h"
#include "quant/rounding/grids/integer_grids.h"
#include "quant/rounding/half_float.h"

namespace ballast::quant {

namespace {

using model::ScaleCodes;

constexpr int kTopSignedCode = model::scale_codes(ScaleCodes::kSigned) - 1;

}  // namespace

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
  const float wanted = largest * static_cast<float>(kTopSignedCode + 1) / static_cast<float>(kTopSignedCode);
  grids.row_scale = half_bits(wanted, scale_type_);
  // One up where it was rounded down, so that the highest code reaches the largest scale.
  if (from_half(grids.row_scale, scale_type_) < wanted) ++grids.row_scale;

  std::vector<std::uint8_t> codes(kTopSignedCode + 1);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint8_t>(i);
  std::vector<std::uint16_t> bits(codes.size());
  model::decode_scales(grids.row_scale, codes, ScaleCodes::kSigned, scale_type_, bits);
  shared_scales_.resize(codes.size());
  kernels::to_float(bits.data(), model::scale_float_type(scale_type_), bits.size(), shared_scales_.data());

  grids.scale_codes.resize(grids.groups.size());
  for (std::size_t g = 0; g < grids.groups.size(); ++g) {
    const std::int8_t code = scale_code(group(g), grids.groups[g].scale);
    grids.groups[g] = shared_grid(code);
    grids.scale_codes[g] = static_cast<std::uint8_t>(code);
  }
}

QuantParams NonlinearGridFinder::shared_grid(std::int8_t code) const {
  const float magnitude = shared_scales_[static_cast<std::size_t>(std::abs(code))];
  return {code < 0 ? -magnitude : magnitude, search_.range().symmetric_zero_point};
}

std::int8_t NonlinearGridFinder::scale_code(const WeightedGroup& group, float wanted) const {
  const int sign = wanted < 0 ? -1 : 1;
  const auto above = std::ranges::lower_bound(shared_scales_, std::abs(wanted));
  const int first = static_cast<int>(std::min<std::ptrdiff_t>(above - shared_scales_.begin(), kTopSignedCode));
  // The next scale up still spans the whole range.
  auto best = static_cast<std::int8_t>(sign * first);
  if (method_ == GridMethod::kRange || wanted == 0) return best;
  float least = weighted_error(group, shared_grid(best), search_.range());
  for (const int magnitude : {first - 2, first - 1, first + 1}) {
    if (magnitude < 0 || magnitude > kTopSignedCode) continue;
    const auto code = static_cast<std::int8_t>(sign * magnitude);
    const float error = weighted_error(group, shared_grid(code), search_.range());
    if (!(error < least)) continue;
    least = error;
    best = code;
  }
  return best;
}

}  // namespace ballast::quant
