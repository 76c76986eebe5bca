#include <algorithm>
#include <cassert>
#include <functional>
#include <iterator>
#include <span>
#include <vector>

#include "kernels/matrix/quantized_storage.h"
#include "kernels/parallel.h"
#include "kernels/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matrix/quantized_activations.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "kernels/matrix/integer_rounding-inl.h"

namespace ballast::kernels {
#ifndef BALLAST_KERNELS_QUANTIZED_ACTIVATIONS_ONCE_
#define BALLAST_KERNELS_QUANTIZED_ACTIVATIONS_ONCE_

/// The memory of a run that begins with row `first`.
struct RunStorage {
  QuantizedActivations::Storage* dst;
  std::size_t first;
};

/// Returns the run of a row.
inline const RunStorage& run_of(std::span<const RunStorage> runs, std::size_t row) {
  return *std::prev(std::ranges::upper_bound(runs, row, std::less<>(), &RunStorage::first));
}

#endif  // BALLAST_KERNELS_QUANTIZED_ACTIVATIONS_ONCE_
}  // namespace ballast::kernels

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

/// Quantizes a row as token `token`.
void quantize_row(const RowSource& rows, std::size_t index, std::size_t token, float* scratch,
                  QuantizedActivations::Storage& s) {
  const std::size_t cols = s.layout.cols;
  const std::size_t outliers = s.format.outlier_columns.size();
  const std::size_t planes = s.planes();
  const float* row = rows.row(index, scratch);
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

void quantize(const RowSource& rows, std::span<const RunStorage> runs) {
  // A thread gets neighbouring tokens, because their results share cache lines (tasks of one token took four times as
  // long).
  constexpr std::size_t kTokensOfTask = 8;
  std::size_t count = 0;
  std::size_t values = 0;
  std::size_t most_cols = 0;
  for (const RunStorage& run : runs) {
    count += run.dst->m;
    values += run.dst->m * run.dst->layout.cols;
    most_cols = HWY_MAX(most_cols, run.dst->layout.cols);
  }
  const std::size_t threads = threads_for(values);
  const TokenPartitions partitions(count, threads);
  const ThreadScratch scratch(threads, 2 * most_cols);
  const std::size_t tasks = (partitions.largest() + kTokensOfTask - 1) / kTokensOfTask;
  const std::size_t first = runs.front().first;
  parallel_partitions(partitions.count, tasks, threads,
                      [&](std::size_t partition, std::size_t task, std::size_t thread) HWY_ATTR {
                        const std::size_t begin = first + partitions.begin(partition) + task * kTokensOfTask;
                        const std::size_t end = HWY_MIN(first + partitions.begin(partition + 1), begin + kTokensOfTask);
                        for (std::size_t row = begin; row < end; ++row) {
                          const RunStorage& run = run_of(runs, row);
                          quantize_row(rows, row, row - run.first, scratch.of(thread), *run.dst);
                        }
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

void QuantizedActivations::Storage::prepare(std::size_t tokens, const ActivationQuantization& wanted) {
  assert(wanted.group_size > 0 && wanted.type != ActivationType::kFloat);
  if (!(format == wanted)) {
    format = wanted;
    layout = GroupLayout(format.cols, format.group_size);
  }
  m = tokens;
  codes.grow(m * planes() * layout.padded_cols());
  scales.grow(m * layout.groups);
  negated_sums.grow(m * planes() * layout.groups);
  outliers.grow(m * format.outlier_columns.size());
}

void QuantizedActivations::quantize(const RowSource& rows, std::size_t m, const ActivationQuantization& format) {
  storage_->prepare(m, format);
  const RunStorage all = {.dst = storage_.get(), .first = 0};
  HWY_DYNAMIC_DISPATCH(quantize)(rows, {&all, 1});
}

void QuantizedActivations::quantize(const RowSource& rows, std::span<const Run> runs) {
  std::vector<RunStorage> storages;
  storages.reserve(runs.size());
  for (const Run& run : runs) {
    assert(storages.empty() || run.first == storages.back().first + storages.back().dst->m);
    run.dst->storage_->prepare(run.count, *run.format);
    storages.push_back({.dst = run.dst->storage_.get(), .first = run.first});
  }
  if (!runs.empty()) HWY_DYNAMIC_DISPATCH(quantize)(rows, storages);
}

}  // namespace ballast::kernels
#endif  // HWY_ONCE
