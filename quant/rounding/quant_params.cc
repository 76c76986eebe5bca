#include "quant/rounding/quant_params.h"

#include "quant/rounding/blocks/block_type.h"

namespace ballast::quant {

QuantRange::QuantRange(const WeightFormat& format)
    : qmin(format.symmetric && format.bits == 8 ? 1 : 0),
      qmax((1 << format.bits) - 1),
      symmetric_zero_point(1 << (format.bits - 1)) {
  if (format.kind == WeightFormat::Kind::kAffine && format.bits < 8) symmetric_zero_point = 0;  // but a minimum
  if (format.kind != WeightFormat::Kind::kBlocks) return;
  const BlockType& type = block_type(format.block_type);
  qmin = type.qmin;
  qmax = type.qmax;
  symmetric_zero_point = type.zero_point;
  nearest = type.nearest;
}

}  // namespace ballast::quant
