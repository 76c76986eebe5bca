// Products of few tokens with a panel of 6- or 8-bit codes.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matrix/quantized_panel_6_8.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "kernels/matrix/quantized_panel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

void multiply_panel_of_6_or_8_bits(int bits, const PackedPanelProduct& product) {
  if (bits == 6) {
    product.multiply(UniformCodes<6>());
  } else {
    product.multiply(UniformCodes<8>());
  }
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
