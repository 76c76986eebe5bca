#include "quant/rounding/grids/quant_params.h"

#include <utility>

#include "ballast/codebooks.h"
#include "formats/blocks/block_tables.h"
#include "quant/rounding/grids/block_type.h"

namespace ballast::quant {

namespace {

template <std::size_t... kRow>
std::array<NearestCodes, sizeof...(kRow)> nearest_codes_of_rows(std::index_sequence<kRow...> /*rows*/) {
  return {NearestCodes(kCodebooks[kRow].values, kCodebookZero)...};
}

/// Returns null for a codebook that has every whole number between its first and last value.
const NearestCodes* nearest_codes(CodebookId id) {
  // Not constexpr: with all codebooks, clang's limit of steps at compile time is too low.
  static const auto tables = nearest_codes_of_rows(std::make_index_sequence<kCodebooks.size()>());
  const auto* row = std::ranges::find(kCodebooks, id, &Codebook::id);
  return has_consecutive_values(*row) ? nullptr : &tables[static_cast<std::size_t>(row - kCodebooks.begin())];
}

}  // namespace

QuantRange::QuantRange(const WeightFormat& format)
    : qmin(format.symmetric && format.bits == 8 ? 1 : 0),
      qmax((1 << format.bits) - 1),
      symmetric_zero_point(1 << (format.bits - 1)),
      count(qmax - qmin + 1) {
  if (format.codebook != CodebookId::kUniform) {
    const std::span<const std::int8_t> values = codebook(format.codebook).values;
    symmetric_zero_point = kCodebookZero;
    qmin = symmetric_zero_point + values.front();
    qmax = symmetric_zero_point + values.back();
    count = static_cast<int>(values.size());
    nearest = nearest_codes(format.codebook);
  }
  if (format.kind == WeightFormat::Kind::kAffine && format.bits < 8) symmetric_zero_point = 0;  // but with a minimum
  if (format.kind != WeightFormat::Kind::kBlocks) return;
  const BlockType& type = block_type(format.block_type);
  qmin = type.qmin;
  qmax = type.qmax;
  symmetric_zero_point = type.zero_point;
  nearest = type.nearest;
  count = nearest == nullptr ? qmax - qmin + 1 : static_cast<int>(formats::kIq4Values.size());
}

}  // namespace ballast::quant
