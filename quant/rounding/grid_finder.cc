#include "quant/rounding/grid_finder.h"

#include <algorithm>
#include <cmath>

#include "quant/rounding/grids/block_type.h"

namespace ballast::quant {

namespace {

/// Returns the importance of the columns, 0 where one does not count.
std::vector<float> column_weights(const GridColumns& columns) {
  std::vector<float> weights(columns.quantized_mask.size());
  for (std::size_t c = 0; c < weights.size(); ++c) {
    if (columns.quantized_mask[c] != 0) weights[c] = columns.importance.empty() ? 1.0F : columns.importance[c];
  }
  return weights;
}

}  // namespace

GridFinder::GridFinder(const WeightFormat& format, DType scale_type, GridMethod method, const GridColumns& columns)
    : format_(format),
      scale_type_(scale_type),
      method_(method),
      group_size_(grid_group_size(format, columns.quantized_mask.size())),
      search_(format, scale_type, method),
      quantized_mask_(columns.quantized_mask.begin(), columns.quantized_mask.end()),
      weights_(column_weights(columns)) {
  if (format.kind != WeightFormat::Kind::kBlocks) return;
  if (block_type(format.block_type).is_lattice) {
    lattice_.emplace(format.block_type, method);
  } else {
    blocks_.emplace(format.block_type, method);
  }
}

void GridFinder::find(std::span<const float> values, RowGrids& grids) {
  values_.assign(values.begin(), values.end());
  for (std::size_t c = 0; c < values_.size(); ++c) {
    if (quantized_mask_[c] == 0) values_[c] = 0;
  }
  groups_.clear();
  grids.groups.clear();
  for (std::size_t begin = 0; begin < values_.size(); begin += group_size_) {
    const std::size_t size = std::min(group_size_, values_.size() - begin);
    groups_.push_back({std::span(values_).subspan(begin, size), std::span(weights_).subspan(begin, size)});
    grids.groups.push_back(search_.best_grid(groups_.back()));
  }
  if (lattice_) {
    lattice_->store(groups_, grids);
  } else if (blocks_) {
    blocks_->store(groups_, grids);
  } else if (format_.scale_bits == 8) {
    share_row_scale(grids);
  }
}

void GridFinder::nearest_codes(const RowGrids& grids, std::span<std::uint8_t> codes) const {
  if (lattice_) {
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      lattice_->round(groups_[g], grids.groups[g], codes.data() + g * group_size_);
    }
    return;
  }
  for (std::size_t c = 0; c < codes.size(); ++c) {
    const QuantParams& grid = grids.groups[c / group_size_];
    codes[c] = static_cast<std::uint8_t>(quantized_mask_[c] != 0 ? code_of(values_[c], grid, search_.range())
                                                                 : grid.zero_point);
  }
}

void GridFinder::share_row_scale(RowGrids& grids) const {
  float largest = 0;
  for (const QuantParams& grid : grids.groups) largest = std::max(largest, std::abs(grid.scale));
  const auto kind =
      format_.codebook == CodebookId::kUniform ? formats::ScaleCodes::kUnsigned : formats::ScaleCodes::kSigned;
  const SharedScales scales(kind, scale_type_, largest);
  grids.row_scale = scales.row_scale();
  grids.scale_codes.resize(grids.groups.size());
  for (std::size_t g = 0; g < grids.groups.size(); ++g) {
    grids.groups[g] = fit_to_shared_scales(groups_[g], scales, grids.groups[g], grids.scale_codes[g]);
  }
}

QuantParams GridFinder::fit_to_shared_scales(const WeightedGroup& group, const SharedScales& scales,
                                             const QuantParams& wanted, std::uint8_t& scale_code) const {
  const QuantRange& range = search_.range();
  const QuantParams none = {0, format_.symmetric ? range.symmetric_zero_point : 0};
  scale_code = 0;
  if (wanted.scale == 0) return none;
  const int sign = wanted.scale < 0 ? -1 : 1;
  // The grid's lower end stays where the values' or the search put it.
  const float low =
      method_ == GridMethod::kRange ? lowest_value(group) : -static_cast<float>(wanted.zero_point) * wanted.scale;
  const auto with_code = [&](int code, int shift) {
    const float scale = scales.scale(code);
    if (format_.symmetric) return QuantParams{static_cast<float>(sign) * scale, range.symmetric_zero_point};
    if (scale == 0) return none;
    return QuantParams{scale, std::clamp(static_cast<int>(std::nearbyint(-low / scale)) + shift, 0, range.qmax)};
  };

  // The next scale up still spans the whole range.
  const int first = scales.code_from(std::abs(wanted.scale));
  QuantParams best = with_code(first, 0);
  scale_code = static_cast<std::uint8_t>(sign * first);
  if (method_ == GridMethod::kRange) return best;
  float least = weighted_error(group, best, range);
  for (int code = std::max(first - 2, 0); code <= std::min(first + 1, scales.top_code()); ++code) {
    for (const int shift : {0, -1, 1}) {
      if (shift != 0 && format_.symmetric) continue;
      const QuantParams grid = with_code(code, shift);
      const float error = weighted_error(group, grid, range);
      if (!(error < least)) continue;
      least = error;
      best = grid;
      scale_code = static_cast<std::uint8_t>(sign * code);
    }
  }
  return best;
}

std::size_t grid_group_size(const WeightFormat& format, std::size_t cols) {
  if (format.kind == WeightFormat::Kind::kBlocks) return block_type(format.block_type).group_size;
  return format.group_size == 0 ? cols : format.group_size;
}

std::size_t activation_group_size(const WeightFormat& format) {
  // llama.cpp rounds the inputs of blocks in groups as large as a block.
  if (format.kind == WeightFormat::Kind::kBlocks) return dtype_info(format.block_type).block_elements;
  return format.group_size;
}

}  // namespace ballast::quant
