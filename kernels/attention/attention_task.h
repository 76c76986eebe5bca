// The tasks of attention, and their working memory.
#ifndef BALLAST_KERNELS_ATTENTION_ATTENTION_TASK_H_
#define BALLAST_KERNELS_ATTENTION_ATTENTION_TASK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <span>

#include "kernels/attention/attention.h"
#include "kernels/attention/key_bias.h"
#include "kernels/attention/key_value_pages.h"
#include "kernels/float_gemm.h"

namespace ballast::kernels {

/// Rows are pairs (query, head of the group). With 96 rows, decoding a block of keys is 8 % of the work, and scores,
/// keys, values and sums of heads of 64 take 170 KB, which fits L2.
inline constexpr std::size_t kAttentionRows = 96;

/// Keys that a row processes at once: those of a page, from a multiple of this position on.
inline constexpr std::size_t kAttentionKeys = kPageTokens;

/// Channels of float keys that contain values whose products are summed before they are added to the earlier ones: few
/// enough that two vectors of rows stay in the first-level cache for all keys of a block.
inline constexpr std::size_t kChannelsAtOnce = 192;

/// Positions, from a multiple of this number on, whose softmax is computed separately and merged with the other parts
/// in order. The part of a position depends on the position alone, so the order of all sums is the same whether a
/// query's parts are separate tasks or run in one.
inline constexpr std::size_t kAttentionPart = 512;
static_assert(kAttentionPart % kAttentionKeys == 0);

/// Returns the end of the part that contains a position.
inline std::size_t part_end(std::size_t position) {
  return (position / kAttentionPart + 1) * kAttentionPart;
}

/// The most rows that process a block of INT8 keys before its values: their scores stay in L1.
inline constexpr std::size_t kMostInt8TileRows = 6;

/// Returns the rows rounded up to whole panels of this machine's float tiles, where lanes hold rows
/// (latent_attention-inl.h).
inline std::size_t lane_rows(std::size_t rows) {
  const std::size_t width = own_tile_width();
  return (rows + width - 1) / width * width;
}

/// Positions begin .. end.
struct PositionRange {
  std::size_t begin;
  std::size_t end;

  std::size_t size() const { return end - begin; }
  bool operator==(const PositionRange&) const = default;
};

/// Returns the intersection, which may be empty, with the end equal to the begin.
inline PositionRange intersection(const PositionRange& a, const PositionRange& b) {
  const std::size_t begin = std::clamp(a.begin, b.begin, b.end);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

/// A query of a sequence.
struct AttentionQuery {
  const AttentionSequence* sequence;
  std::size_t index;

  std::size_t position() const { return sequence->kv.length - sequence->queries + index; }
};

/// Returns the distance of rows of quantized queries: whole fours, also for keys in two parts.
inline std::size_t query_code_stride(std::size_t head_size) {
  return stored_size(CacheType::kInt8, RowKind::kKeys, head_size) + 4;
}

/// The work of a task: queries with some key heads, for all heads that share them. The queries are those of one
/// sequence, or of several that share the pages of the range. Its rows are [kv_heads][queries][heads that share a key
/// head].
struct AttentionTask {
  std::span<const AttentionQuery> queries;
  std::size_t first_kv_head;
  std::size_t kv_heads;
  bool sinks;                 ///< whether it includes the sinks of a window
  PositionRange range;        ///< positions other than sinks; may be empty
  float* partial;             ///< null, or the memory for the AttentionRows of its only part, to be merged with others
  double* first_token_share;  ///< null, or [kv_heads][heads that share a key head]: this task's sum

  /// Return the rows of one key head, and of all.
  std::size_t rows_of_head(const AttentionShape& shape) const { return queries.size() * shape.heads_of_key(); }
  std::size_t rows(const AttentionShape& shape) const { return kv_heads * rows_of_head(shape); }

  /// Returns the sequence whose pages are read.
  const AttentionSequence& sequence() const { return *queries.front().sequence; }
};

/// Returns the positions that a query attends to, as sinks or apart from them. Both ends ascend with the query's
/// position.
inline PositionRange visible_positions(const AttentionShape& shape, const AttentionQuery& query, bool sinks) {
  const AttentionSequence& sequence = *query.sequence;
  const std::size_t position = query.position();
  const std::size_t known = shape.causal ? position + 1 : sequence.kv.length;
  if (sinks) return {0, std::min(sequence.sinks, known)};
  if (sequence.window == 0) return {0, known};
  const std::size_t begin = std::max(sequence.sinks, position + 1 - std::min(position + 1, sequence.window));
  return {begin, std::max(begin, position + std::min(known - position, sequence.window))};
}

/// The positions of a page that a task processes together.
struct AttentionBlock {
  const PageLayout& layout;
  const CachePage& page;
  std::size_t head;            ///< of keys and values
  std::size_t first_position;  ///< of the page
  std::size_t begin;           ///< slots
  std::size_t end;

  /// Covers the positions from `position` to the page's end or `last_end`.
  AttentionBlock(const KeyValueView& kv, std::size_t position, std::size_t last_end)
      : layout(*kv.layout),
        page(kv.page_of(position)),
        head(0),
        first_position(position - position % kAttentionKeys),
        begin(position - first_position),
        end(std::min(kAttentionKeys, last_end - first_position)) {}

  std::size_t count() const { return end - begin; }
  PositionRange positions() const { return {first_position + begin, first_position + end}; }
  const std::byte* rows(RowKind kind) const { return page.data + layout.rows_at(kind, head); }

  // Returns the codes of INT8 pages.
  const std::uint8_t* key_codes() const { return reinterpret_cast<const std::uint8_t*>(rows(RowKind::kKeys)); }
  const std::int8_t* value_codes() const { return reinterpret_cast<const std::int8_t*>(rows(RowKind::kValues)); }
  const float* scales(RowKind kind) const {
    return reinterpret_cast<const float*>(page.data + layout.scales_at(kind, head));
  }
  /// Returns a slot's F16 row, PageLayout::kNoFp16Row for none.
  std::int8_t fp16_number(std::size_t slot) const {
    return reinterpret_cast<const std::int8_t*>(page.data + layout.fp16_numbers_at())[slot];
  }
  /// Returns the F16 values that replace the codes in a slot with an F16 row.
  const std::uint16_t* fp16_values(RowKind kind, std::size_t slot) const {
    return page.fp16_rows + static_cast<std::size_t>(fp16_number(slot)) * layout.fp16_row_size() +
           layout.fp16_values_at(kind, head);
  }
};

/// Returns the factor on queries that makes scores logarithms to base 2.
inline float score_factor(const AttentionShape& shape) {
  return shape.scale * std::numbers::log2e_v<float>;
}

/// Returns AttentionShape::score_cap for such scores; 0: none.
inline float score_limit(const AttentionShape& shape) {
  return shape.score_cap * std::numbers::log2e_v<float>;
}

/// Allocates arrays from one piece of memory; only counts their size if the memory is null.
class FloatCutter {
 public:
  explicit FloatCutter(float* memory) : memory_(memory) {}

  float* take(std::size_t count) {
    float* part = memory_ == nullptr ? nullptr : memory_ + size_;
    size_ += count;
    return part;
  }
  /// Allocates an array of another type, for which the memory is aligned.
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
  float* sums;           ///< [rows][sum_size]: weighted sums of values
  std::size_t sum_size;  ///< the values' size in whole vectors

  static std::size_t padded(std::size_t value_size) { return (value_size + 15) / 16 * 16; }

  /// Returns the rows from `first` on.
  AttentionRows from(std::size_t first) const {
    AttentionRows rows = *this;
    rows.maximum += first;
    rows.total += first;
    rows.first_score += first;
    rows.sums += first * sum_size;
    return rows;
  }

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

/// The part of a task's memory for a key bias.
struct KeyBiasScratch {
  float* coefficients;  ///< [rows][head_size]: of cos, then of sin, per frequency
  float* constants;     ///< [rows]: sums of values that are not rotated
  float* turned;        ///< [kMostInt8TileRows][2 * pairs]: coefficients from a panel's start on
  float* angles;        ///< [panels of a block][2 * pairs]: cos, then sin, of the panels' starts
  KeyRotation::FarGroup far;

  /// Returns the part for the rows from `first` on.
  KeyBiasScratch from(std::size_t first, std::size_t head_size) const {
    KeyBiasScratch scratch = *this;
    scratch.coefficients += first * head_size;
    scratch.constants += first;
    return scratch;
  }

  KeyBiasScratch(FloatCutter& cutter, std::size_t rows, std::size_t head_size)
      : coefficients(cutter.take(rows * head_size)),
        constants(cutter.take(rows)),
        turned(cutter.take(kMostInt8TileRows * head_size)),
        angles(cutter.take(kAttentionKeys / kPanelTokens * head_size)),
        far{cutter.take_as<double>(head_size), cutter.take_as<std::size_t>(1)} {}
};

/// The two parts of quantized queries for keys that contain values, the values' channels and the others: each part's
/// scale as a fraction of the row's, and the starts of the others.
struct QueryParts {
  float* of_values;             ///< [rows]
  float* of_others;             ///< [rows]
  std::int32_t* others_starts;  ///< [rows]

  QueryParts from(std::size_t first) const {
    QueryParts parts = *this;
    parts.of_values += first;
    parts.of_others += first;
    parts.others_starts += first;
    return parts;
  }

  QueryParts(FloatCutter& cutter, std::size_t rows)
      : of_values(cutter.take(rows)), of_others(cutter.take(rows)), others_starts(cutter.take_as<std::int32_t>(rows)) {}
};

/// A task's working memory.
struct AttentionScratch {
  FloatCutter cutter;
  AttentionRows rows;
  AttentionRows part;  ///< of any part but the first
  float* q;            ///< [rows][head_size], times the scale and log2(e)
  float* q_lanes;      ///< [lane_rows / panel rows][head_size][panel rows]: q for float keys that contain values
  float* scores;       ///< [rows][kAttentionKeys], or [kAttentionKeys][lane_rows]; then softmax weights
  float* panel;        ///< float keys, [head_size][panel rows] or rows; or a block's F16 keys among INT8 ones
  float* values;       ///< [kAttentionKeys][value_size]: float values, or a block's F16 ones among INT8 ones
  float* rescale;      ///< [rows]: factor on the previous sums

  // For INT8 caches.
  std::int8_t* q_codes;      ///< [rows][query_code_stride]
  float* rotated;            ///< [head_size]: one query
  float* q_scales;           ///< [rows], not 0
  std::int32_t* q_starts;    ///< [rows]: compensates the 128 that is added to keys
  QueryParts q_parts;        ///< only if keys contain values
  std::int8_t* value_codes;  ///< [kAttentionKeys / 4][sum_size][4]: of a block, copied from the keys that contain them
  float* value_scales;       ///< [kAttentionKeys]: 0 for values that are not read from codes
  std::uint8_t* weights;     ///< [kMostInt8TileRows][kAttentionKeys]
  std::uint8_t* fp16_slots;  ///< [kAttentionKeys]: of the block's F16 rows
  KeyBiasScratch bias;

  static std::size_t floats(std::size_t rows, std::size_t head_size, std::size_t value_size) {
    return AttentionScratch(nullptr, rows, head_size, value_size).cutter.size();
  }

  AttentionScratch(float* memory, std::size_t row_count, std::size_t head_size, std::size_t value_size)
      : cutter(memory),
        rows(cutter, row_count, value_size),
        part(cutter, row_count, value_size),
        q(cutter.take(row_count * head_size)),
        q_lanes(cutter.take(lane_rows(row_count) * head_size)),
        scores(cutter.take(std::max(lane_rows(row_count), kMostInt8TileRows) * kAttentionKeys)),
        panel(cutter.take(kAttentionKeys * std::max(head_size, kChannelsAtOnce))),
        values(cutter.take(kAttentionKeys * std::max(value_size, own_tile_width()) + kSlack)),
        rescale(cutter.take(row_count)),
        q_codes(cutter.take_as<std::int8_t>(row_count * query_code_stride(head_size))),
        rotated(cutter.take(head_size)),
        q_scales(cutter.take(row_count)),
        q_starts(cutter.take_as<std::int32_t>(row_count)),
        q_parts(cutter, row_count),
        value_codes(cutter.take_as<std::int8_t>(kAttentionKeys * AttentionRows::padded(value_size))),
        value_scales(cutter.take(kAttentionKeys)),
        weights(cutter.take_as<std::uint8_t>(kMostInt8TileRows * kAttentionKeys)),
        fp16_slots(cutter.take_as<std::uint8_t>(kAttentionKeys)),
        bias(cutter, row_count, head_size) {}

  /// Returns the part for the rows from `first` on; the memory of blocks is shared by all rows.
  AttentionScratch from(std::size_t first, std::size_t head_size) const {
    AttentionScratch scratch = *this;
    scratch.rows = rows.from(first);
    scratch.q += first * head_size;
    scratch.q_codes += first * query_code_stride(head_size);
    scratch.q_scales += first;
    scratch.q_starts += first;
    scratch.q_parts = q_parts.from(first);
    scratch.bias = bias.from(first, head_size);
    return scratch;
  }

 private:
  static constexpr std::size_t kSlack = 512;  ///< a tile reads up to two whole vectors past the last column
};

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_ATTENTION_ATTENTION_TASK_H_
