#include "kernels/attention.h"

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/parallel.h"
#include "kernels/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>
// After highway.h:
#include <hwy/contrib/math/math-inl.h>

#include "kernels/float_tile-inl.h"

namespace ballast::kernels {
#ifndef BALLAST_KERNELS_ATTENTION_ONCE_
#define BALLAST_KERNELS_ATTENTION_ONCE_

/// What one task computes: a block of queries of one sequence with one key head, for all heads that share it.
struct AttentionTask {
  const AttentionSequence* sequence;
  std::size_t kv_head;
  std::size_t first_query;
  std::size_t queries;
  double* first_token_share;  ///< null, or [heads that share a key head]: this task's part
};

/// Rows are pairs (query, head of the group). 96 rows make decoding a block of keys 8 % of the work, and scores, keys,
/// values and sums of heads of 64 take 170 KB: L2.
inline constexpr std::size_t kAttentionRows = 96;
inline constexpr std::size_t kAttentionKeys = 128;

/// A thread's working memory, cut from one piece of scratch.
struct AttentionScratch {
  float* q;            ///< [rows][head_size], scaled
  float* scores;       ///< [rows][kAttentionKeys], then softmax weights
  float* panels;       ///< keys: [head_size][panel rows] per panel
  float* values;       ///< [kAttentionKeys][head_size]
  float* sums;         ///< [rows][head_size]
  float* maximum;      ///< [rows]
  float* total;        ///< [rows]
  float* rescale;      ///< [rows]
  float* first_score;  ///< [rows]

  static std::size_t floats(std::size_t rows, std::size_t head_size) {
    return 2 * rows * head_size + rows * kAttentionKeys + 2 * kAttentionKeys * head_size + 4 * rows + kSlack;
  }

  AttentionScratch(float* memory, std::size_t rows, std::size_t head_size) {
    const auto take = [&memory](std::size_t count) {
      float* part = memory;
      memory += count;
      return part;
    };
    q = take(rows * head_size);
    scores = take(rows * kAttentionKeys);
    panels = take(kAttentionKeys * head_size);
    values = take(kAttentionKeys * head_size + kSlack);
    sums = take(rows * head_size);
    maximum = take(rows);
    total = take(rows);
    rescale = take(rows);
    first_score = take(rows);
  }

 private:
  static constexpr std::size_t kSlack = 512;  ///< a tile reads two whole vectors beside the last column
};

#endif  // BALLAST_KERNELS_ATTENTION_ONCE_
}  // namespace ballast::kernels

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

/// Softmax weights of `valid` scores in place, zeros up to `count`; updates the row's maximum and total.
HWY_INLINE void softmax_block(float* HWY_RESTRICT scores, std::size_t valid, std::size_t count, float& maximum,
                              float& total, float& rescale) {
  const FloatTag df;
  const std::size_t lanes = hn::Lanes(df);
  rescale = 1.0F;
  if (valid == 0) {
    for (std::size_t i = 0; i < count; ++i) scores[i] = 0.0F;
    return;
  }
  const auto lowest = hn::Set(df, -std::numeric_limits<float>::infinity());
  auto max = hn::Set(df, maximum);
  std::size_t i = 0;
  for (; i + lanes <= valid; i += lanes) max = hn::Max(max, hn::LoadU(df, scores + i));
  if (i < valid) {
    max = hn::Max(max, hn::IfThenElse(hn::FirstN(df, valid - i), hn::LoadN(df, scores + i, valid - i), lowest));
  }
  const float new_maximum = hn::ReduceMax(df, max);
  rescale = maximum == -std::numeric_limits<float>::infinity() ? 0.0F : std::exp(maximum - new_maximum);
  maximum = new_maximum;
  const auto shift = hn::Set(df, new_maximum);
  auto sum = hn::Zero(df);
  for (i = 0; i + lanes <= valid; i += lanes) {
    const auto weight = hn::Exp(df, hn::Sub(hn::LoadU(df, scores + i), shift));
    sum = hn::Add(sum, weight);
    hn::StoreU(weight, df, scores + i);
  }
  if (i < valid) {
    const std::size_t left = valid - i;
    const auto weight =
        hn::IfThenElseZero(hn::FirstN(df, left), hn::Exp(df, hn::Sub(hn::LoadN(df, scores + i, left), shift)));
    sum = hn::Add(sum, weight);
    hn::StoreN(weight, df, scores + i, left);
  }
  for (i = valid; i < count; ++i) scores[i] = 0.0F;
  total = total * rescale + hn::ReduceSum(df, sum);
}

/// Scores of all rows with `count` keys, of which `keys` is the first.
HWY_INLINE void score_block(const char* keys, FloatType type, std::size_t head_size, std::size_t rows,
                            std::size_t count, const AttentionScratch& scratch) {
  const FloatTag df;
  const std::size_t width = panel_rows();
  for (std::size_t key = 0; key < count; key += width) {
    const std::size_t wide = HWY_MIN(width, count - key);
    decode_panel(keys + key * head_size * float_type_bytes(type), type, head_size, wide, head_size, scratch.panels);
    float* scores = scratch.scores + key;
    multiply_panel(scratch.q, rows, head_size, scratch.panels, width, head_size,
                   [&](std::size_t row, auto c0, auto c1)
                       HWY_ATTR { store_pair(df, c0, c1, wide, scores + row * kAttentionKeys); });
  }
}

/// sums = sums * rescale + weights . values
HWY_INLINE void accumulate_values(std::size_t head_size, std::size_t rows, std::size_t count,
                                  const AttentionScratch& scratch) {
  const FloatTag df;
  const std::size_t lanes = hn::Lanes(df);
  const std::size_t width = panel_rows();
  for (std::size_t c = 0; c < head_size; c += width) {
    const std::size_t wide = HWY_MIN(width, head_size - c);
    float* sums = scratch.sums + c;
    multiply_panel(scratch.scores, rows, kAttentionKeys, scratch.values + c, head_size, count,
                   [&](std::size_t row, auto c0, auto c1) HWY_ATTR {
                     const auto rescale = hn::Set(df, scratch.rescale[row]);
                     float* sum = sums + row * head_size;
                     store_pair(df, hn::MulAdd(load_or_zero(df, sum, 0, wide), rescale, c0),
                                hn::MulAdd(load_or_zero(df, sum, lanes, wide), rescale, c1), wide, sum);
                   });
  }
}

void gather_queries(const AttentionShape& shape, const AttentionTask& task, const AttentionScratch& scratch) {
  const FloatTag df;
  const std::size_t lanes = hn::Lanes(df);
  const std::size_t group = shape.heads / shape.kv_heads;
  const auto scale = hn::Set(df, shape.scale);
  for (std::size_t i = 0; i < task.queries; ++i) {
    // Heads of a group lie side by side: one run of floats.
    const float* src =
        task.sequence->q + (task.first_query + i) * task.sequence->q_stride + task.kv_head * group * shape.head_size;
    float* dst = scratch.q + i * group * shape.head_size;
    const std::size_t count = group * shape.head_size;
    std::size_t c = 0;
    for (; c + lanes <= count; c += lanes) hn::StoreU(hn::Mul(hn::LoadU(df, src + c), scale), df, dst + c);
    if (c < count) hn::StoreN(hn::Mul(hn::LoadN(df, src + c, count - c), scale), df, dst + c, count - c);
  }
}

void store_outputs(const AttentionShape& shape, const AttentionTask& task, const AttentionScratch& scratch) {
  const FloatTag df;
  const std::size_t lanes = hn::Lanes(df);
  const std::size_t group = shape.heads / shape.kv_heads;
  const std::size_t size = shape.head_size;
  for (std::size_t row = 0; row < task.queries * group; ++row) {
    float* dst = task.sequence->out + (task.first_query + row / group) * shape.heads * size +
                 (task.kv_head * group + row % group) * size;
    const float* src = scratch.sums + row * size;
    const auto factor = hn::Set(df, 1.0F / scratch.total[row]);
    std::size_t c = 0;
    for (; c + lanes <= size; c += lanes) hn::StoreU(hn::Mul(hn::LoadU(df, src + c), factor), df, dst + c);
    if (c < size) hn::StoreN(hn::Mul(hn::LoadN(df, src + c, size - c), factor), df, dst + c, size - c);
    if (task.first_token_share != nullptr) {
      task.first_token_share[row % group] +=
          std::exp(static_cast<double>(scratch.first_score[row]) - scratch.maximum[row]) / scratch.total[row];
    }
  }
}

void attend(const AttentionShape& shape, const AttentionTask& task, float* memory) {
  const KeyValueView& kv = task.sequence->kv;
  const std::size_t group = shape.heads / shape.kv_heads;
  const std::size_t rows = task.queries * group;
  const std::size_t row_bytes = shape.head_size * float_type_bytes(kv.type);
  const char* keys = static_cast<const char*>(kv.keys) + task.kv_head * kv.capacity * row_bytes;
  const char* values = static_cast<const char*>(kv.values) + task.kv_head * kv.capacity * row_bytes;
  const AttentionScratch scratch(memory, rows, shape.head_size);
  gather_queries(shape, task, scratch);
  for (std::size_t row = 0; row < rows; ++row) {
    scratch.maximum[row] = -std::numeric_limits<float>::infinity();
    scratch.total[row] = 0.0F;
  }
  for (std::size_t i = 0; i < rows * shape.head_size; ++i) scratch.sums[i] = 0.0F;

  // The first query sees positions 0 .. first_visible - 1, the next one more.
  const std::size_t first_visible = kv.length - task.sequence->queries + task.first_query + 1;
  const std::size_t end = first_visible + task.queries - 1;
  for (std::size_t key = 0; key < end; key += kAttentionKeys) {
    const std::size_t count = HWY_MIN(kAttentionKeys, end - key);
    score_block(keys + key * row_bytes, kv.type, shape.head_size, rows, count, scratch);
    for (std::size_t row = 0; row < rows; ++row) {
      const std::size_t visible = first_visible + row / group;
      const std::size_t valid = visible <= key ? 0 : HWY_MIN(count, visible - key);
      float* scores = scratch.scores + row * kAttentionKeys;
      if (key == 0) scratch.first_score[row] = scores[0];
      softmax_block(scores, valid, count, scratch.maximum[row], scratch.total[row], scratch.rescale[row]);
    }
    decode_values(values + key * row_bytes, kv.type, count * shape.head_size, scratch.values);
    accumulate_values(shape.head_size, rows, count, scratch);
  }
  store_outputs(shape, task, scratch);
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ballast::kernels {

HWY_EXPORT(attend);

void attention(const AttentionShape& shape, std::span<const AttentionSequence> sequences) {
  const std::size_t group = shape.heads / shape.kv_heads;
  const std::size_t block = std::max<std::size_t>(1, kAttentionRows / group);
  std::vector<AttentionTask> tasks;
  std::size_t operations = 0;
  std::size_t most_queries = 0;
  for (const AttentionSequence& sequence : sequences) {
    operations += shape.heads * sequence.queries * sequence.kv.length * shape.head_size;
    most_queries = std::max(most_queries, std::min(block, sequence.queries));
    for (std::size_t kv_head = 0; kv_head < shape.kv_heads; ++kv_head) {
      for (std::size_t query = 0; query < sequence.queries; query += block) {
        tasks.push_back({&sequence, kv_head, query, std::min(block, sequence.queries - query), nullptr});
      }
    }
  }
  // Every task has its own part of the shares, added up in order below.
  std::vector<double> shares(tasks.size() * group, 0.0);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (tasks[i].sequence->first_token_share != nullptr) tasks[i].first_token_share = shares.data() + i * group;
  }

  const std::size_t threads = threads_for(operations);
  const ThreadScratch scratch(threads, AttentionScratch::floats(most_queries * group, shape.head_size));
  const auto run = HWY_DYNAMIC_POINTER(attend);
  // The last queries see the most keys: longest tasks first keeps the threads even.
  parallel_tasks(tasks.size(), threads, [&](std::size_t i, std::size_t thread) {
    run(shape, tasks[tasks.size() - 1 - i], scratch.of(thread));
  });

  for (const AttentionSequence& sequence : sequences) {
    if (sequence.first_token_share != nullptr) std::fill_n(sequence.first_token_share, shape.heads, 0.0);
  }
  for (const AttentionTask& task : tasks) {
    if (task.first_token_share == nullptr) continue;
    double* total = task.sequence->first_token_share + task.kv_head * group;
    for (std::size_t h = 0; h < group; ++h) total[h] += task.first_token_share[h];
  }
}

void append_key_values(const float* keys, const float* values, std::size_t stride, std::size_t count,
                       const AttentionShape& shape, FloatType type, std::size_t capacity, std::size_t first,
                       void* key_cache, void* value_cache) {
  const std::size_t size = shape.head_size;
  const std::size_t threads = threads_for(count * shape.kv_heads * size);
  parallel_ranges(count, threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      for (std::size_t head = 0; head < shape.kv_heads; ++head) {
        const std::size_t at = (head * capacity + first + i) * size * float_type_bytes(type);
        const std::size_t from = i * stride + head * size;
        from_float(keys + from, size, type, static_cast<char*>(key_cache) + at);
        from_float(values + from, size, type, static_cast<char*>(value_cache) + at);
      }
    }
  });
}

}  // namespace ballast::kernels
#endif  // HWY_ONCE
