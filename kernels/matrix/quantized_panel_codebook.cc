// Products of few tokens with a panel of codes of a codebook.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matrix/quantized_panel_codebook.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "kernels/matrix/quantized_panel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

void multiply_panel_of_codebook(CodebookId id, const PackedPanelProduct& product) {
  with_codebook_codes(id, [&](auto codes) HWY_ATTR { product.multiply(codes); });
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
