// Partial redundancy elimination splits the types of the INT8 tile's accumulators, after which gcc keeps none of them
// in registers and runs at half the speed.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-pre")
#endif

#include "kernels/attention/attention.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <numbers>

#include "kernels/attention/attention_plan.h"
#include "kernels/attention/attention_task.h"
#include "kernels/parallel.h"
#include "kernels/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/attention.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>
// After highway.h:
#include "kernels/attention/float_attention-inl.h"
#include "kernels/attention/int8_attention-inl.h"
#include "kernels/attention/latent_attention-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

/// Computes dst = src * factor + 0, which makes a negative zero positive; the arrays may be short.
HWY_INLINE void scale_values(const float* src, std::size_t count, float factor, float* dst) {
  const auto scale = hn::Set(FloatTag(), factor);
  for_vectors(count,
              [&](auto load, auto store) HWY_ATTR { store(hn::MulAdd(load(src), scale, hn::Zero(FloatTag())), dst); });
}

/// Prepares the task's queries, those for the sinks or the others, with one head per row: multiplies them by the scale;
/// for INT8 keys also computes their codes and, if the keys lack a bias, its coefficients.
void prepare_queries(const AttentionShape& shape, const AttentionTask& task, bool sinks, const AttentionScratch& all) {
  // Heads of a group are adjacent: one run of floats.
  const std::size_t count = shape.heads_of_key() * shape.head_size;
  const std::size_t rows = task.rows_of_head(shape);
  const KeyValueView& kv = task.sequence().kv;
  for (std::size_t head = 0; head < task.kv_heads; ++head) {
    const AttentionScratch scratch = all.from(head * rows, shape.head_size);
    float* dst = scratch.q;
    for (const AttentionQuery& query : task.queries) {
      const AttentionSequence& sequence = *query.sequence;
      const float* row = sinks && sequence.sink_q != nullptr ? sequence.sink_q + query.index * sequence.sink_q_stride
                                                             : sequence.q + query.index * sequence.q_stride;
      scale_values(row + (task.first_kv_head + head) * count, count, score_factor(shape), dst);
      dst += count;
    }
    if (kv.layout->type() != CacheType::kInt8) {
      if (kv.layout->values_in_keys()) lay_queries_in_lanes(rows, shape.head_size, scratch);
      continue;
    }
    quantize_queries(*kv.layout, rows, scratch);
    if (kv.key_bias.values == nullptr) continue;
    prepare_key_bias(kv.key_bias, task.first_kv_head + head, rows, shape.head_size, scratch);
  }
}

/// Stores the outputs of one of the task's key heads. A row's sums include zeros of either sign from keys that only
/// other rows see: negative zeros are not stored, so the result does not depend on them.
void store_outputs(const AttentionShape& shape, const AttentionTask& task, std::size_t kv_head,
                   const AttentionRows& rows) {
  const std::size_t group = shape.heads_of_key();
  const std::size_t size = shape.output_size();
  const PageLayout& layout = *task.sequence().kv.layout;
  const bool rotated = layout.type() == CacheType::kInt8 && layout.values_in_keys();
  for (std::size_t row = 0; row < task.rows_of_head(shape); ++row) {
    const AttentionQuery& query = task.queries[row / group];
    const std::size_t head = kv_head * group + row % group;  // index within the task
    const std::size_t head_of_all = task.first_kv_head * group + head;
    float* dst = query.sequence->out + (query.index * shape.heads + head_of_all) * size;
    const float* sums = rows.sums + row * rows.sum_size;
    if (rotated) {  // the rotation is its own inverse
      rotate_head(sums, size, dst);
      sums = dst;
    }
    float total = rows.total[row];
    if (shape.sink_logits != nullptr) {
      total += std::exp2(shape.sink_logits[head_of_all] * std::numbers::log2e_v<float> - rows.maximum[row]);
    }
    scale_values(sums, size, 1.0F / total, dst);
    if (task.first_token_share != nullptr) {
      task.first_token_share[head] += std::exp2(static_cast<double>(rows.first_score[row]) - rows.maximum[row]) / total;
    }
  }
}

/// The initial maximum: finite, so that differences are numbers.
constexpr float kLowest = -std::numeric_limits<float>::max();

/// Initializes rows without keys.
void clear_rows(const AttentionRows& rows, std::size_t count) {
  std::fill_n(rows.maximum, count, kLowest);
  std::fill_n(rows.first_score, count, -std::numeric_limits<float>::infinity());
  std::fill_n(rows.total, count, 0.0F);
  std::fill_n(rows.sums, count * rows.sum_size, 0.0F);
}

/// Computes the running softmax of prepared queries over a range of positions, to scratch.rows. A row's result depends
/// on the range only in that positions outside are not included.
template <class Dots>
void attend_range(const AttentionShape& shape, const AttentionTask& task, bool sinks, const PositionRange& range,
                  const AttentionScratch& all) {
  const KeyValueView& kv = task.sequence().kv;
  const std::size_t group = shape.heads_of_key();
  const std::size_t rows = task.rows_of_head(shape);
  const bool int8 = kv.layout->type() == CacheType::kInt8;
  const KeyBias& bias = kv.key_bias;
  const KeyRotation* rotation = int8 && bias.values != nullptr ? bias.rotation : nullptr;
  const float limit = score_limit(shape);
  assert((shape.distance_bias.values == nullptr && shape.slopes == nullptr && task.sequence().score_bias == nullptr) ||
         (!int8 && !kv.layout->values_in_keys()));
  clear_rows(all.rows, task.kv_heads * rows);
  for (std::size_t key = range.begin, end = 0; key < range.end; key = end) {
    AttentionBlock block(kv, key, range.end);
    if (rotation != nullptr) prepare_panel_angles(*rotation, block.first_position, all.bias);
    const PositionRange positions = block.positions();
    const auto seen_by = [&](std::size_t row) {
      return intersection(visible_positions(shape, task.queries[row / group], sinks), positions);
    };
    // Both ends ascend from row to row, so positions that the first and the last row see are seen by all.
    const bool whole = seen_by(0) == positions && seen_by(rows - 1) == positions;
    const auto visible = [&](std::size_t row) { return whole ? positions : seen_by(row); };
    const bool reads_ahead = kv.layout->values_in_keys() && positions.end < range.end;
    const std::byte* next_page = reads_ahead ? kv.page_of(positions.end).data : nullptr;
    for (std::size_t head = 0; head < task.kv_heads; ++head) {
      block.head = task.first_kv_head + head;
      const AttentionScratch scratch = all.from(head * rows, shape.head_size);
      if (int8) {
        attend_int8_block<Dots>(block, next_page, rotation, limit, rows, visible, scratch);
      } else if (kv.layout->values_in_keys()) {
        attend_latent_block(block, next_page, limit, rows, visible, scratch);
      } else {
        const auto add_bias = [&](std::size_t row, float* scores) HWY_ATTR {
          const AttentionQuery& query = task.queries[row / group];
          const std::size_t query_head = block.head * group + row % group;
          if (query.sequence->score_bias != nullptr) add_score_bias(query, query_head, positions, scores);
          if (shape.slopes != nullptr) subtract_slope(shape.slopes[query_head], query.position(), positions, scores);
          if (shape.distance_bias.values == nullptr) return;
          add_distance_bias(shape.distance_bias, query_head, query.position(), positions, scores);
        };
        attend_float_block(block, limit, rows, visible, add_bias, scratch);
      }
    }
    end = positions.end;
  }
}

/// Merges the softmax of a part into that of the parts before it. If a row saw nothing in one of them, it keeps the
/// bits of the other. Not inlined, so that all callers execute the same instructions.
HWY_NOINLINE void merge_rows(const AttentionRows& part, std::size_t count, const AttentionRows& all) {
  const FloatTag df;
  for_vectors(count, [&](auto load, auto store) HWY_ATTR {
    const auto before = load(all.maximum), after = load(part.maximum);
    const auto maximum = hn::Max(before, after);
    const auto kept = exp2_of<Exp2Accuracy::kFloat>(df, hn::Sub(before, maximum));
    const auto added = exp2_of<Exp2Accuracy::kFloat>(df, hn::Sub(after, maximum));
    store(hn::MulAdd(load(all.total), kept, hn::Mul(load(part.total), added)), all.total);
    store(maximum, all.maximum);
    store(hn::Max(load(all.first_score), load(part.first_score)), all.first_score);
    // The part's maximum is no longer needed.
    store(kept, part.maximum);
    store(added, part.total);
  });
  for (std::size_t row = 0; row < count; ++row) {
    const auto kept = hn::Set(df, part.maximum[row]), added = hn::Set(df, part.total[row]);
    const float* other = part.sums + row * all.sum_size;
    float* sum = all.sums + row * all.sum_size;
    for_vectors(all.sum_size, [&](auto load, auto store)
                                  HWY_ATTR { store(hn::MulAdd(load(sum), kept, hn::Mul(load(other), added)), sum); });
  }
}

template <class Dots>
void attend_by(const AttentionShape& shape, const AttentionTask& task, float* memory) {
  const std::size_t rows = task.rows(shape);
  AttentionScratch scratch(memory, rows, shape.head_size, shape.output_size());
  AttentionRows all = scratch.rows;
  if (task.partial != nullptr) {
    FloatCutter cutter(task.partial);
    all = AttentionRows(cutter, rows, shape.output_size());
  }
  bool first = true;
  const auto attend_part = [&](bool sinks, const PositionRange& range) {
    scratch.rows = first ? all : scratch.part;
    attend_range<Dots>(shape, task, sinks, range, scratch);
    if (!first) merge_rows(scratch.part, rows, all);
    first = false;
  };
  if (task.sinks) {
    prepare_queries(shape, task, true, scratch);
    attend_part(true, {0, visible_positions(shape, task.queries.back(), true).end});
  }
  if (task.range.size() != 0) prepare_queries(shape, task, false, scratch);
  for (std::size_t begin = task.range.begin, end = 0; begin < task.range.end; begin = end) {
    end = std::min(task.range.end, part_end(begin));
    attend_part(false, {begin, end});
  }
  if (task.partial != nullptr) return;
  for (std::size_t head = 0; head < task.kv_heads; ++head) {
    store_outputs(shape, task, head, all.from(head * task.rows_of_head(shape)));
  }
}

void attend(const AttentionShape& shape, const AttentionTask& task, float* memory) {
  with_dots([&](auto dots) HWY_ATTR { attend_by<decltype(dots)>(shape, task, memory); });
}

/// Merges the rows of a merge's parts in order, into those of the first, and stores the result.
void merge_parts(const AttentionShape& shape, const AttentionPlan& plan, const AttentionPlan::Merge& merge) {
  const std::size_t row_count = merge.whole.rows_of_head(shape);
  for (std::size_t head = 0; head < merge.whole.kv_heads; ++head) {
    const auto rows_of = [&](const AttentionPlan::MergedPart& part) {
      const AttentionTask& task = plan.tasks()[part.task];
      FloatCutter cutter(task.partial);
      return AttentionRows(cutter, task.rows(shape), shape.output_size())
          .from(head * task.rows_of_head(shape) + part.first_query * shape.heads_of_key());
    };
    const std::span<const AttentionPlan::MergedPart> parts = plan.parts(merge);
    const AttentionRows all = rows_of(parts.front());
    for (const AttentionPlan::MergedPart& part : parts.subspan(1)) merge_rows(rows_of(part), row_count, all);
    store_outputs(shape, merge.whole, head, all);
  }
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ballast::kernels {

HWY_EXPORT(attend);
HWY_EXPORT(merge_parts);

void attention(const AttentionShape& shape, std::span<const AttentionSequence> sequences) {
  AttentionPlan& plan = AttentionPlan::of_this_thread();
  plan.make(shape, sequences);
  const std::span<const AttentionTask> tasks = plan.tasks();
  const ThreadScratch scratch(plan.threads(),
                              AttentionScratch::floats(plan.most_rows(), shape.head_size, shape.output_size()));
  const auto attend_one = HWY_DYNAMIC_POINTER(attend);
  // The last queries have the most keys: starting with the longest tasks balances the threads.
  parallel_tasks(tasks.size(), plan.threads(), [&](std::size_t i, std::size_t thread) {
    attend_one(shape, tasks[tasks.size() - 1 - i], scratch.of(thread));
  });
  const auto merge = HWY_DYNAMIC_POINTER(merge_parts);
  parallel_tasks(plan.merges().size(), plan.merge_threads(),
                 [&](std::size_t i, std::size_t) { merge(shape, plan, plan.merges()[i]); });
  plan.add_up_shares(shape, sequences);
}

}  // namespace ballast::kernels
#endif  // HWY_ONCE
