#include "quant/rounding/quant_params.h"

#include "ballast/quantized.h"
#include "files/gguf/block_tables.h"
#include "quant/rounding/blocks/block_type.h"

namespace ballast::quant {

namespace {

constexpr NearestCodes kNearest4(kNonlinear4, kNonlinearZero);
constexpr NearestCodes kNearest5(kNonlinear5, kNonlinearZero);
constexpr NearestCodes kNearest6(kNonlinear6, kNonlinearZero);

/// Null where there are all.
const NearestCodes* nearest_nonlinear(int bits) {
  if (bits == 7) return nullptr;
  if (bits == 6) return &kNearest6;
  return bits == 4 ? &kNearest4 : &kNearest5;
}

}  // namespace

QuantRange::QuantRange(const WeightFormat& format)
    : qmin(format.symmetric && format.bits == 8 ? 1 : 0),
      qmax((1 << format.bits) - 1),
      symmetric_zero_point(1 << (format.bits - 1)),
      count(qmax - qmin + 1) {
  if (format.kind == WeightFormat::Kind::kNonlinear) {
    const std::span<const std::int8_t> values = nonlinear_values(format.bits);
    symmetric_zero_point = kNonlinearZero;
    qmin = symmetric_zero_point + values.front();
    qmax = symmetric_zero_point + values.back();
    nearest = nearest_nonlinear(format.bits);
  }
  if (format.kind == WeightFormat::Kind::kAffine && format.bits < 8) symmetric_zero_point = 0;  // but a minimum
  if (format.kind != WeightFormat::Kind::kBlocks) return;
  const BlockType& type = block_type(format.block_type);
  qmin = type.qmin;
  qmax = type.qmax;
  symmetric_zero_point = type.zero_point;
  nearest = type.nearest;
  count = nearest == nullptr ? qmax - qmin + 1 : static_cast<int>(files::kNonlinearValues.size());
}

}  // namespace ballast::quant
