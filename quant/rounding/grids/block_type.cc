#include "quant/rounding/grids/block_type.h"

#include <algorithm>
#include <cassert>

#include "formats/blocks/block_tables.h"

namespace ballast::quant {

namespace {

constexpr int kMiddle = 128;  // of codes with a codebook

constexpr NearestCodes kNearestIq4(formats::kIq4Values, kMiddle);
constexpr int kLowestIq4 = kMiddle + formats::kIq4Values.front();
constexpr int kHighestIq4 = kMiddle + formats::kIq4Values.back();

constexpr std::array<BlockType, 12> kBlockTypes{{
    {.dtype = DType::kQ8_0, .qmin = 1, .qmax = 255, .zero_point = 128},
    {.dtype = DType::kQ4_0, .qmax = 15, .zero_point = 8},
    {.dtype = DType::kQ4_1, .qmax = 15, .has_minimums = true},
    {.dtype = DType::kQ5_0, .qmax = 31, .zero_point = 16},
    {.dtype = DType::kQ5_1, .qmax = 31, .has_minimums = true},
    {.dtype = DType::kIQ4_NL, .qmin = kLowestIq4, .qmax = kHighestIq4, .zero_point = kMiddle, .nearest = &kNearestIq4},
    {.dtype = DType::kQ2_K,
     .qmax = 3,
     .group_size = 16,
     .has_minimums = true,
     .groups_of_scale = 16,
     .factor_high = 15,
     .minimum_factor_high = 15},
    {.dtype = DType::kQ3_K,
     .qmin = 4,
     .qmax = 11,
     .zero_point = 8,
     .group_size = 16,
     .groups_of_scale = 16,
     .factor_low = -32,
     .factor_high = 31},
    {.dtype = DType::kQ4_K,
     .qmax = 15,
     .has_minimums = true,
     .groups_of_scale = 8,
     .factor_high = 63,
     .minimum_factor_high = 63},
    {.dtype = DType::kQ5_K,
     .qmax = 31,
     .has_minimums = true,
     .groups_of_scale = 8,
     .factor_high = 63,
     .minimum_factor_high = 63},
    {.dtype = DType::kQ6_K,
     .qmax = 63,
     .zero_point = 32,
     .group_size = 16,
     .groups_of_scale = 16,
     .factor_low = -128,
     .factor_high = 127},
    {.dtype = DType::kIQ4_XS,
     .qmin = kLowestIq4,
     .qmax = kHighestIq4,
     .zero_point = kMiddle,
     .groups_of_scale = 8,
     .factor_low = -32,
     .factor_high = 31,
     .nearest = &kNearestIq4},
}};

}  // namespace

const BlockType& block_type(DType dtype) {
  const auto* found = std::ranges::find(kBlockTypes, dtype, &BlockType::dtype);
  assert(found != kBlockTypes.end());
  return *found;
}

}  // namespace ballast::quant
