// The scales of a row that 8-bit codes represent.
#ifndef BALLAST_QUANT_ROUNDING_SCALES_SHARED_SCALES_H_
#define BALLAST_QUANT_ROUNDING_SCALES_SHARED_SCALES_H_

#include <cstdint>
#include <vector>

#include "ballast/tensor.h"
#include "formats/scale_codes.h"

namespace ballast::quant {

class SharedScales {
 public:
  /// `kind` of codes, and a row scale of `type` with which the highest reaches `largest`.
  SharedScales(formats::ScaleCodes kind, DType type, float largest);

  std::uint16_t row_scale() const { return row_scale_; }

  /// `code` is not negative.
  float scale(int code) const { return scales_[static_cast<std::size_t>(code)]; }

  int top_code() const { return static_cast<int>(scales_.size()) - 1; }

  /// Returns the lowest code whose scale is at least `scale`, or the highest.
  int code_from(float scale) const;

 private:
  std::uint16_t row_scale_;
  std::vector<float> scales_;  ///< of all codes that are not negative
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_ROUNDING_SCALES_SHARED_SCALES_H_
