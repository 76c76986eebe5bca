#include "quant/rounding/grids/block_type.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <span>

#include "formats/blocks/block_tables.h"

namespace ballast::quant {

namespace {

constexpr int kMiddle = 128;  // of codes with a codebook

constexpr NearestCodes kNearestIq4(formats::kIq4Values, kMiddle);
constexpr int kLowestIq4 = kMiddle + formats::kIq4Values.front();
constexpr int kHighestIq4 = kMiddle + formats::kIq4Values.back();

constexpr int kMiddleMxfp4 = 16;
constexpr int kMiddleNvfp4 = 32;
constexpr int kLargestFloat4 = std::ranges::max(formats::kTwiceE2M1);
constexpr NearestCodes kNearestMxfp4(formats::kTwiceE2M1, kMiddleMxfp4);
constexpr NearestCodes kNearestNvfp4(formats::kTwiceE2M1, kMiddleNvfp4);

// The values that single elements of lattices can have, of either sign.
constexpr std::array<std::int8_t, 6> kIq2Steps = {-43, -25, -8, 8, 25, 43};
constexpr std::array<std::int8_t, 16> kIq3XxsSteps = {-62, -52, -44, -36, -28, -20, -12, -4,
                                                      4,   12,  20,  28,  36,  44,  52,  62};
constexpr std::array<std::int8_t, 16> kIq3SSteps = {-15, -13, -11, -9, -7, -5, -3, -1, 1, 3, 5, 7, 9, 11, 13, 15};
constexpr int kMiddleIq3S = 16;
constexpr NearestCodes kNearestIq2(kIq2Steps, kMiddle);
constexpr NearestCodes kNearestIq3Xxs(kIq3XxsSteps, kMiddle);
constexpr NearestCodes kNearestIq3S(kIq3SSteps, kMiddleIq3S);

constexpr BlockType lattice(DType dtype, std::size_t group_size, int zero_point, int largest,
                            const NearestCodes& nearest) {
  return {.dtype = dtype,
          .qmin = zero_point - largest,
          .qmax = zero_point + largest,
          .zero_point = zero_point,
          .group_size = group_size,
          .groups_of_scale = 256 / group_size,
          .factor_low = 1,
          .factor_high = 31,
          .nearest = &nearest,
          .is_lattice = true};
}

constexpr std::array<BlockType, 19> kBlockTypes{{
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
    {.dtype = DType::kMXFP4,
     .qmin = kMiddleMxfp4 - kLargestFloat4,
     .qmax = kMiddleMxfp4 + kLargestFloat4,
     .zero_point = kMiddleMxfp4,
     .nearest = &kNearestMxfp4,
     .scales = formats::kMxfp4Scales,
     .scale_type = DType::kBF16},
    {.dtype = DType::kNVFP4,
     .qmin = kMiddleNvfp4 - kLargestFloat4,
     .qmax = kMiddleNvfp4 + kLargestFloat4,
     .zero_point = kMiddleNvfp4,
     .group_size = 16,
     .nearest = &kNearestNvfp4,
     .scales = std::span(formats::kNvfp4Scales).first(formats::kNvfp4NotANumber)},
    lattice(DType::kIQ2_XXS, 32, kMiddle, kIq2Steps.back(), kNearestIq2),
    lattice(DType::kIQ2_XS, 16, kMiddle, kIq2Steps.back(), kNearestIq2),
    lattice(DType::kIQ2_S, 16, kMiddle, kIq2Steps.back(), kNearestIq2),
    lattice(DType::kIQ3_XXS, 32, kMiddle, kIq3XxsSteps.back(), kNearestIq3Xxs),
    lattice(DType::kIQ3_S, 32, kMiddleIq3S, kIq3SSteps.back(), kNearestIq3S),
}};

}  // namespace

const BlockType& block_type(DType dtype) {
  const auto* found = std::ranges::find(kBlockTypes, dtype, &BlockType::dtype);
  assert(found != kBlockTypes.end());
  return *found;
}

}  // namespace ballast::quant
