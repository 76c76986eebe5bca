// Scales that are 8-bit codes times a scale of the row.
#ifndef BALLAST_QUANT_ROUNDING_SCALES_ROW_SCALES_H_
#define BALLAST_QUANT_ROUNDING_SCALES_ROW_SCALES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "ballast/recipe.h"
#include "ballast/tensor.h"
#include "quant/rounding/grids/grid_search.h"
#include "quant/rounding/grids/quant_params.h"
#include "quant/rounding/scales/stored_scales.h"

namespace ballast::quant {

class RowScales final : public StoredScales {
 public:
  RowScales(const WeightFormat& format, DType scale_type, GridMethod method)
      : symmetric_(format.symmetric),
        has_codebook_(format.codebook != CodebookId::kUniform),
        scale_type_(scale_type),
        method_(method),
        range_(format) {}

  void store(std::span<const WeightedGroup> groups, RowGrids& grids) const override;

 private:
  /// A row's scale in 16 bits, and the scales of all codes that are not negative.
  struct Scales {
    std::uint16_t row_scale = 0;
    std::vector<float> of_codes{};
  };

  /// The highest code reaches `largest`.
  Scales scales_up_to(float largest) const;

  /// Returns the best grid whose scale has an 8-bit code close to the wanted scale; keeps the sign.
  QuantParams fitted_grid(const WeightedGroup& group, std::span<const float> scales, const QuantParams& wanted,
                          std::uint8_t& scale_code) const;

  bool symmetric_;
  bool has_codebook_;
  DType scale_type_;
  GridMethod method_;
  QuantRange range_;
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_ROUNDING_SCALES_ROW_SCALES_H_
