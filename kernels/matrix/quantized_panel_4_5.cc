// Products of few tokens with a panel of 4- or 5-bit codes.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matrix/quantized_panel_4_5.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "kernels/matrix/quantized_panel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

void multiply_panel_of_4_or_5_bits(int bits, const PackedPanelProduct& product) {
  if (bits == 4) {
    product.multiply(UniformCodes<4>());
  } else {
    product.multiply(UniformCodes<5>());
  }
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
