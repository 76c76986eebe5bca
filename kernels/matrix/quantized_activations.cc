#include <algorithm>
#include <cassert>

#include "kernels/matrix/quantized_storage.h"
#include "kernels/parallel.h"
#include "kernels/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matrix/quantized_activations.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "kernels/matrix/integer_rounding-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

/// The integers of one token: codes [planes][padded_cols], scales [groups], negated sums [planes][groups].
struct TokenCodes {
  std::int8_t* codes;
  float* scales;
  std::int32_t* negated_sums;
};

void quantize_token(const float* src, const QuantizedActivations::Storage& s, const TokenCodes& token) {
  const GroupLayout& layout = s.layout;
  const std::size_t padded_cols = layout.padded_cols();
  const bool int16 = s.format.type == ActivationType::kInt16;
  // Columns that share a scale: parts of one group do, unless they are INT16.
  const std::size_t shared = int16 ? layout.group_size : s.format.scale_per_group ? s.format.group_size : layout.cols;
  const std::size_t groups_of_scale = (shared + layout.group_size - 1) / layout.group_size;
  float maximum = 0.0F;
  for (std::size_t group = 0; group < layout.groups; ++group) {
    const std::size_t begin = group * layout.group_size;
    if (group % groups_of_scale == 0) {
      maximum = absolute_maximum(src + begin, std::min(shared, layout.cols - begin));
    }
    const std::size_t count = layout.columns_in(group);
    std::int8_t* codes = token.codes + layout.padded_begin(group);
    std::int32_t sum = 0;
    if (int16) {
      std::int32_t low_sum = 0;
      token.scales[group] =
          quantize_group_to_16(src + begin, count, maximum, kPlaneFactor, codes, codes + padded_cols, sum, low_sum);
      token.negated_sums[layout.groups + group] = -low_sum;
    } else {
      token.scales[group] = quantize_group(src + begin, count, maximum, codes, sum);
    }
    token.negated_sums[group] = -sum;
    for (std::size_t i = count; i < layout.padded_in(group); ++i) {
      codes[i] = 0;
      if (int16) codes[padded_cols + i] = 0;
    }
  }
}

void quantize_row(const RowSource& rows, std::size_t token, float* scratch, QuantizedActivations::Storage& s) {
  const std::size_t cols = s.layout.cols;
  const std::size_t outliers = s.format.outlier_columns.size();
  const std::size_t planes = s.planes();
  const float* row = rows.row(token, scratch);
  if (outliers != 0) {
    float* rest = std::copy_n(row, cols, scratch + cols) - cols;
    for (std::size_t j = 0; j < outliers; ++j) {
      const std::int32_t column = s.format.outlier_columns[j];
      s.outliers.data()[token * outliers + j] = row[column];
      rest[column] = 0.0F;
    }
    row = rest;
  } else if (!s.format.column_order.empty()) {
    float* ordered = scratch + cols;
    for (std::size_t i = 0; i < cols; ++i) ordered[i] = row[s.format.column_order[i]];
    row = ordered;
  }
  quantize_token(row, s,
                 {s.codes.data() + token * planes * s.layout.padded_cols(), s.scales.data() + token * s.layout.groups,
                  s.negated_sums.data() + token * planes * s.layout.groups});
}

void quantize(const RowSource& rows, QuantizedActivations::Storage& s) {
  // A thread gets neighbouring tokens, because their results share cache lines (tasks of one token took four times as
  // long).
  constexpr std::size_t kTokensOfTask = 8;
  const std::size_t threads = threads_for(s.m * s.layout.cols);
  const TokenPartitions partitions(s.m, threads);
  const ThreadScratch scratch(threads, 2 * s.layout.cols);
  const std::size_t tasks = (partitions.largest() + kTokensOfTask - 1) / kTokensOfTask;
  parallel_partitions(partitions.count, tasks, threads,
                      [&](std::size_t partition, std::size_t task, std::size_t thread) HWY_ATTR {
                        const std::size_t begin = partitions.begin(partition) + task * kTokensOfTask;
                        const std::size_t end = HWY_MIN(partitions.begin(partition + 1), begin + kTokensOfTask);
                        for (std::size_t token = begin; token < end; ++token)
                          quantize_row(rows, token, scratch.of(thread), s);
                      });
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ballast::kernels {

HWY_EXPORT(quantize);

QuantizedActivations::QuantizedActivations() : storage_(std::make_unique<Storage>()) {}
QuantizedActivations::~QuantizedActivations() = default;
QuantizedActivations::QuantizedActivations(QuantizedActivations&&) noexcept = default;
QuantizedActivations& QuantizedActivations::operator=(QuantizedActivations&&) noexcept = default;

std::size_t QuantizedActivations::m() const {
  return storage_->m;
}

void QuantizedActivations::quantize(const RowSource& rows, std::size_t m, const ActivationQuantization& format) {
  assert(format.group_size > 0 && format.type != ActivationType::kFloat);
  Storage& s = *storage_;
  if (!(s.format == format)) {
    s.format = format;
    s.layout = GroupLayout(format.cols, format.group_size);
  }
  s.m = m;
  s.codes.grow(m * s.planes() * s.layout.padded_cols());
  s.scales.grow(m * s.layout.groups);
  s.negated_sums.grow(m * s.planes() * s.layout.groups);
  s.outliers.grow(m * format.outlier_columns.size());
  HWY_DYNAMIC_DISPATCH(quantize)(rows, s);
}

}  // namespace ballast::kernels
#endif  // HWY_ONCE
