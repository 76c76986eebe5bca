// How attention is cut into tasks, and the memory that one works in.
#ifndef BALLAST_KERNELS_ATTENTION_ATTENTION_TASK_H_
#define BALLAST_KERNELS_ATTENTION_ATTENTION_TASK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numbers>

#include "kernels/attention/attention.h"
#include "kernels/attention/key_value_rows.h"

namespace ballast::kernels {

/// Rows are pairs (query, head of the group). 96 rows make decoding a block of keys 8 % of the work, and scores, keys,
/// values and sums of heads of 64 take 170 KB: L2.
inline constexpr std::size_t kAttentionRows = 96;
inline constexpr std::size_t kAttentionKeys = 128;
static_assert(kAttentionKeys % kPanelTokens == 0);

/// Most rows that meet a block of INT8 keys before they meet its values: their scores stay in L1.
inline constexpr std::size_t kMostInt8TileRows = 6;

/// Positions begin .. end.
struct PositionRange {
  std::size_t begin;
  std::size_t end;

  std::size_t size() const { return end - begin; }
};

/// May be empty, with the end at the begin.
inline PositionRange intersection(const PositionRange& a, const PositionRange& b) {
  const std::size_t begin = std::clamp(a.begin, b.begin, b.end);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

/// What one task computes: a block of queries of one sequence with one key head, for all heads that share it, over one
/// part of the positions.
struct AttentionTask {
  const AttentionSequence* sequence;
  std::size_t kv_head;
  std::size_t first_query;
  std::size_t queries;
  PositionRange part;         ///< of what is not seen as a sink
  bool sinks;                 ///< whether the sinks of a window belong to it
  float* partial;             ///< null, or where AttentionRows go that others' are merged with
  double* first_token_share;  ///< null, or [heads that share a key head]: this task's part

  std::size_t position(std::size_t query) const {
    return sequence->kv.length - sequence->queries + first_query + query;
  }
};

/// Queries over a store of keys and values, from which a query sees one range of positions.
struct AttentionPart {
  const float* q;
  std::size_t q_stride;
  const CachedRows& keys;
  const CachedRows& values;
  bool sinks;
};

/// The positions that a query at `position` sees in a part. Both ends ascend with the query's position.
inline PositionRange visible_positions(const AttentionShape& shape, bool sinks, std::size_t length,
                                       std::size_t position) {
  const std::size_t end = position + 1;
  if (sinks) return {0, std::min(shape.sinks, end)};
  if (!shape.causal) return {0, length};
  if (shape.window == 0) return {0, end};
  const std::size_t begin = std::max(shape.sinks, end - std::min(end, shape.window));
  return {begin, std::max(begin, end)};
}

/// What queries are multiplied with, so that scores are logarithms to base 2.
inline float score_factor(const AttentionShape& shape) {
  return shape.scale * std::numbers::log2e_v<float>;
}

/// Takes arrays from one piece of memory; only counts when that is null.
class FloatCutter {
 public:
  explicit FloatCutter(float* memory) : memory_(memory) {}

  float* take(std::size_t count) {
    float* part = memory_ == nullptr ? nullptr : memory_ + size_;
    size_ += count;
    return part;
  }
  /// Of another type, for which the memory itself is aligned.
  template <class T>
  T* take_as(std::size_t count) {
    if (alignof(T) > sizeof(float)) size_ = (size_ + 1) / 2 * 2;
    static_assert(alignof(T) <= 2 * sizeof(float));
    return reinterpret_cast<T*>(take((count * sizeof(T) + sizeof(float) - 1) / sizeof(float)));
  }
  std::size_t size() const { return size_; }

 private:
  float* memory_;
  std::size_t size_ = 0;
};

/// The running softmax of a task's rows. Scores are logarithms to base 2.
struct AttentionRows {
  float* maximum;        ///< [rows]
  float* total;          ///< [rows]: of 2^(score - maximum)
  float* first_score;    ///< [rows]: of position 0, -infinity where it is not seen
  float* sums;           ///< [rows][sum_size]: of 2^(score - maximum) * value
  std::size_t sum_size;  ///< the values' size in whole vectors

  static std::size_t padded(std::size_t value_size) { return (value_size + 15) / 16 * 16; }

  AttentionRows(FloatCutter& cutter, std::size_t rows, std::size_t value_size)
      : maximum(cutter.take(rows)),
        total(cutter.take(rows)),
        first_score(cutter.take(rows)),
        sums(cutter.take(rows * padded(value_size))),
        sum_size(padded(value_size)) {}

  static std::size_t floats(std::size_t rows, std::size_t value_size) {
    FloatCutter cutter(nullptr);
    const AttentionRows all(cutter, rows, value_size);
    return cutter.size();
  }
};

/// What a key bias needs of a task's memory.
struct KeyBiasScratch {
  float* coefficients;  ///< [rows][head_size]: of cos, then of sin, per frequency
  float* constants;     ///< [rows]: from values that are not rotated
  float* turned;        ///< [kMostInt8TileRows][2 * pairs]: coefficients from a panel's start on
  float* angles;        ///< [panels of a block][2 * pairs]: cos, then sin, of the panels' starts
  double* next;         ///< [2 * pairs]: the same of the panel behind the last one, exact enough to go on from

  KeyBiasScratch(FloatCutter& cutter, std::size_t rows, std::size_t head_size)
      : coefficients(cutter.take(rows * head_size)),
        constants(cutter.take(rows)),
        turned(cutter.take(kMostInt8TileRows * head_size)),
        angles(cutter.take(kAttentionKeys / kPanelTokens * head_size)),
        next(cutter.take_as<double>(head_size)) {}
};

/// A task's working memory.
struct AttentionScratch {
  FloatCutter cutter;
  AttentionRows rows;
  float* q;        ///< [rows][head_size], times the scale and log2(e)
  float* scores;   ///< [rows][kAttentionKeys], then softmax weights
  float* panel;    ///< float keys, [head_size][panel rows]; or a block's exact keys among INT8 ones
  float* values;   ///< [kAttentionKeys][value_size]: float values, or a block's exact ones
  float* rescale;  ///< [rows]: what sums so far are multiplied with

  // For INT8 caches.
  std::int8_t* q_codes;    ///< [rows][stored size of a key]
  float* rotated;          ///< [head_size]: one query
  float* q_scales;         ///< [rows], not 0
  std::int32_t* q_starts;  ///< [rows]: what takes the 128 out that is added to keys
  float* value_scales;     ///< [kAttentionKeys]: 0 for values that are not read from codes
  std::uint8_t* weights;   ///< [kMostInt8TileRows][kAttentionKeys]
  KeyBiasScratch bias;

  static std::size_t floats(std::size_t rows, std::size_t head_size, std::size_t value_size) {
    return AttentionScratch(nullptr, rows, head_size, value_size).cutter.size();
  }

  AttentionScratch(float* memory, std::size_t row_count, std::size_t head_size, std::size_t value_size)
      : cutter(memory),
        rows(cutter, row_count, value_size),
        q(cutter.take(row_count * head_size)),
        scores(cutter.take(std::max(row_count, kMostInt8TileRows) * kAttentionKeys)),
        panel(cutter.take(kAttentionKeys * head_size)),
        values(cutter.take(kAttentionKeys * value_size + kSlack)),
        rescale(cutter.take(row_count)),
        q_codes(cutter.take_as<std::int8_t>(row_count * stored_size(CacheType::kInt8, RowKind::kKeys, head_size))),
        rotated(cutter.take(head_size)),
        q_scales(cutter.take(row_count)),
        q_starts(cutter.take_as<std::int32_t>(row_count)),
        value_scales(cutter.take(kAttentionKeys)),
        weights(cutter.take_as<std::uint8_t>(kMostInt8TileRows * kAttentionKeys)),
        bias(cutter, row_count, head_size) {}

 private:
  static constexpr std::size_t kSlack = 512;  ///< a tile reads two whole vectors beside the last column
};

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_ATTENTION_ATTENTION_TASK_H_
