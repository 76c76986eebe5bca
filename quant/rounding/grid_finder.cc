#include "quant/rounding/grid_finder.h"

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
    : group_size_(grid_group_size(format, columns.quantized_mask.size())),
      search_(format, scale_type, method),
      stored_scales_(make_stored_scales(format, scale_type, method)),
      lattice_(lattice_search_of(format)),
      quantized_mask_(columns.quantized_mask.begin(), columns.quantized_mask.end()),
      weights_(column_weights(columns)) {}

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
  if (stored_scales_) stored_scales_->store(groups_, grids);
}

void GridFinder::nearest_codes(const RowGrids& grids, std::span<std::uint8_t> codes) const {
  if (lattice_ != nullptr) {
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      lattice_->nearest_codes(groups_[g], grids.groups[g], codes.subspan(g * group_size_, group_size_));
    }
    return;
  }
  for (std::size_t c = 0; c < codes.size(); ++c) {
    const QuantParams& grid = grids.groups[c / group_size_];
    codes[c] = static_cast<std::uint8_t>(quantized_mask_[c] != 0 ? code_of(values_[c], grid, search_.range())
                                                                 : grid.zero_point);
  }
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
