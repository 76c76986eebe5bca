// Partial redundancy elimination takes apart the types of the INT8 tile's accumulators, after which gcc keeps none of
// them in registers: half the speed.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-pre")
#endif

#include "kernels/attention/attention.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <vector>

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

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

/// dst = src * factor; the arrays may be short.
HWY_INLINE void scale_values(const float* src, std::size_t count, float factor, float* dst) {
  const auto scale = hn::Set(FloatTag(), factor);
  for_vectors(count, [&](auto load, auto store) HWY_ATTR { store(hn::Mul(load(src), scale), dst); });
}

void gather_queries(const AttentionShape& shape, const AttentionTask& task, const AttentionPart& part,
                    const AttentionScratch& scratch) {
  // Heads of a group lie side by side: one run of floats.
  const std::size_t count = shape.heads / shape.kv_heads * shape.head_size;
  for (std::size_t i = 0; i < task.queries; ++i) {
    const float* src = part.q + (task.first_query + i) * part.q_stride + task.kv_head * count;
    scale_values(src, count, score_factor(shape), scratch.q + i * count);
  }
}

void store_outputs(const AttentionShape& shape, const AttentionTask& task, const AttentionRows& rows) {
  const std::size_t group = shape.heads / shape.kv_heads;
  const std::size_t size = shape.output_size();
  for (std::size_t row = 0; row < task.queries * group; ++row) {
    float* dst = task.sequence->out + (task.first_query + row / group) * shape.heads * size +
                 (task.kv_head * group + row % group) * size;
    scale_values(rows.sums + row * rows.sum_size, size, 1.0F / rows.total[row], dst);
    if (task.first_token_share != nullptr) {
      task.first_token_share[row % group] +=
          std::exp2(static_cast<double>(rows.first_score[row]) - rows.maximum[row]) / rows.total[row];
    }
  }
}

/// Adds what the task's queries see in one part to their running softmax.
void attend_part(const AttentionShape& shape, const AttentionTask& task, const AttentionPart& part,
                 const AttentionScratch& scratch) {
  const std::size_t length = task.sequence->kv.length;
  const auto visible = [&](std::size_t query) {
    const PositionRange seen = visible_positions(shape, part.sinks, length, task.position(query));
    return part.sinks ? seen : intersection(seen, task.part);
  };
  const PositionRange all = {visible(0).begin, visible(task.queries - 1).end};
  if (all.begin >= all.end) return;
  gather_queries(shape, task, part, scratch);
  if (part.keys.type == CacheType::kInt8) {
    attend_int8_keys(shape, task, part, all, visible, scratch);
  } else {
    attend_float_keys(shape, task, part, all, visible, scratch);
  }
}

void attend(const AttentionShape& shape, const AttentionTask& task, float* memory) {
  const AttentionSequence& sequence = *task.sequence;
  const KeyValueView& kv = sequence.kv;
  const std::size_t rows = task.queries * (shape.heads / shape.kv_heads);
  AttentionScratch scratch(memory, rows, shape.head_size, shape.output_size());
  if (task.partial != nullptr) {
    FloatCutter cutter(task.partial);
    scratch.rows = AttentionRows(cutter, rows, shape.output_size());
  }
  std::fill_n(scratch.rows.maximum, rows, -std::numeric_limits<float>::infinity());
  std::fill_n(scratch.rows.first_score, rows, -std::numeric_limits<float>::infinity());
  std::fill_n(scratch.rows.total, rows, 0.0F);
  std::fill_n(scratch.rows.sums, rows * scratch.rows.sum_size, 0.0F);
  if (task.sinks) {
    const bool own_queries = sequence.sink_q != nullptr;
    const bool own_store = kv.sink_keys.data != nullptr;
    attend_part(shape, task,
                {.q = own_queries ? sequence.sink_q : sequence.q,
                 .q_stride = own_queries ? sequence.sink_q_stride : sequence.q_stride,
                 .keys = own_store ? kv.sink_keys : kv.keys,
                 .values = own_store ? kv.sink_values : kv.values,
                 .sinks = true},
                scratch);
  }
  attend_part(shape, task,
              {.q = sequence.q, .q_stride = sequence.q_stride, .keys = kv.keys, .values = kv.values, .sinks = false},
              scratch);
  if (task.partial == nullptr) store_outputs(shape, task, scratch.rows);
}

/// Merges the `count` tasks' rows, which saw one part each, in order, and stores the result.
void merge_parts(const AttentionShape& shape, const AttentionTask* tasks, std::size_t count) {
  const std::size_t row_count = tasks[0].queries * (shape.heads / shape.kv_heads);
  const auto rows_of = [&](std::size_t i) {
    FloatCutter cutter(tasks[i].partial);
    return AttentionRows(cutter, row_count, shape.output_size());
  };
  const AttentionRows all = rows_of(0);
  for (std::size_t i = 1; i < count; ++i) {
    const AttentionRows part = rows_of(i);
    for (std::size_t row = 0; row < row_count; ++row) {
      if (part.total[row] == 0.0F) continue;
      const float maximum = std::max(all.maximum[row], part.maximum[row]);
      const float kept = std::exp2(all.maximum[row] - maximum);
      const float added = std::exp2(part.maximum[row] - maximum);
      const auto kept_vector = hn::Set(FloatTag(), kept);
      const auto added_vector = hn::Set(FloatTag(), added);
      float* sum = all.sums + row * all.sum_size;
      const float* other = part.sums + row * all.sum_size;
      for_vectors(all.sum_size, [&](auto load, auto store) HWY_ATTR {
        store(hn::MulAdd(load(sum), kept_vector, hn::Mul(load(other), added_vector)), sum);
      });
      all.total[row] = all.total[row] * kept + part.total[row] * added;
      all.maximum[row] = maximum;
      all.first_score[row] = std::max(all.first_score[row], part.first_score[row]);
    }
  }
  store_outputs(shape, tasks[0], all);
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ballast::kernels {

HWY_EXPORT(attend);
HWY_EXPORT(merge_parts);

namespace {

/// The tasks of one call. A thread keeps it for its next call, so that a token costs no allocation.
class AttentionPlan {
 public:
  AttentionPlan(const AttentionPlan&) = delete;
  AttentionPlan& operator=(const AttentionPlan&) = delete;

  static AttentionPlan& of_this_thread() {
    static thread_local AttentionPlan plan;
    return plan;
  }

  void make(const AttentionShape& shape, std::span<const AttentionSequence> sequences) {
    tasks_.clear();
    merges_.clear();
    operations_ = most_rows_ = partial_floats_ = 0;
    for (const AttentionSequence& sequence : sequences) add(shape, sequence);
    // Every task has its own part of the shares, added up in order.
    const std::size_t group = shape.heads / shape.kv_heads;
    shares_.assign(tasks_.size() * group, 0.0);
    partials_.grow(partial_floats_);
    float* partial = partials_.data();
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      if (tasks_[i].sequence->first_token_share != nullptr) tasks_[i].first_token_share = shares_.data() + i * group;
    }
    for (const Merge& merge : merges_) {
      for (std::size_t i = merge.first; i < merge.first + merge.count; ++i) {
        tasks_[i].partial = partial;
        partial += AttentionRows::floats(tasks_[i].queries * group, shape.output_size());
      }
    }
  }

  void run(const AttentionShape& shape) const {
    const std::size_t threads = threads_for(operations_);
    const ThreadScratch scratch(threads, AttentionScratch::floats(most_rows_, shape.head_size, shape.output_size()));
    const auto attend_one = HWY_DYNAMIC_POINTER(attend);
    // The last queries see the most keys: longest tasks first keeps the threads even.
    parallel_tasks(tasks_.size(), threads, [&](std::size_t i, std::size_t thread) {
      attend_one(shape, tasks_[tasks_.size() - 1 - i], scratch.of(thread));
    });
    const auto merge = HWY_DYNAMIC_POINTER(merge_parts);
    parallel_tasks(merges_.size(), threads_for(partial_floats_), [&](std::size_t i, std::size_t) {
      merge(shape, tasks_.data() + merges_[i].first, merges_[i].count);
    });
  }

  void add_up_shares(const AttentionShape& shape, std::span<const AttentionSequence> sequences) const {
    const std::size_t group = shape.heads / shape.kv_heads;
    for (const AttentionSequence& sequence : sequences) {
      if (sequence.first_token_share != nullptr) std::fill_n(sequence.first_token_share, shape.heads, 0.0);
    }
    for (const AttentionTask& task : tasks_) {
      if (task.first_token_share == nullptr) continue;
      double* total = task.sequence->first_token_share + task.kv_head * group;
      for (std::size_t h = 0; h < group; ++h) total[h] += task.first_token_share[h];
    }
  }

 private:
  /// Tasks that lie side by side and differ in the part of the positions alone.
  struct Merge {
    std::size_t first;
    std::size_t count;
  };

  AttentionPlan() = default;

  void add(const AttentionShape& shape, const AttentionSequence& sequence) {
    const std::size_t group = shape.heads / shape.kv_heads;
    const std::size_t block = std::max<std::size_t>(1, kAttentionRows / group);
    const std::size_t blocks = (sequence.queries + block - 1) / block;
    const std::size_t rows = std::min(block, sequence.queries) * group;
    const bool sinks = shape.window != 0 && shape.sinks != 0;
    for (std::size_t kv_head = 0; kv_head < shape.kv_heads; ++kv_head) {
      for (std::size_t query = 0; query < sequence.queries; query += block) {
        AttentionTask task = {.sequence = &sequence,
                              .kv_head = kv_head,
                              .first_query = query,
                              .queries = std::min(block, sequence.queries - query),
                              .part = {},
                              .sinks = sinks,
                              .partial = nullptr,
                              .first_token_share = nullptr};
        const PositionRange seen = {
            visible_positions(shape, false, sequence.kv.length, task.position(0)).begin,
            visible_positions(shape, false, sequence.kv.length, task.position(task.queries - 1)).end};
        operations_ += task.queries * group * seen.size() * shape.head_size;
        const std::size_t part = part_size(seen.size(), shape.kv_heads * blocks);
        const std::size_t first_task = tasks_.size();
        task.part = {seen.begin, std::min(seen.end, (seen.begin / part + 1) * part)};
        tasks_.push_back(task);
        while (task.part.end < seen.end) {
          task.part = {task.part.end, std::min(seen.end, task.part.end + part)};
          task.sinks = false;
          tasks_.push_back(task);
        }
        const std::size_t count = tasks_.size() - first_task;
        if (count == 1) continue;
        merges_.push_back({first_task, count});
        partial_floats_ += count * AttentionRows::floats(task.queries * group, shape.output_size());
      }
    }
    most_rows_ = std::max(most_rows_, rows);
  }

  /// Positions per task when a sequence has `tasks` without cutting them: few heads and queries must still share out
  /// evenly among threads (flash decoding). It looks at neither the threads nor the other sequences, so that the result
  /// depends on none of them.
  static std::size_t part_size(std::size_t positions, std::size_t tasks) {
    constexpr std::size_t kTasks = 16;
    constexpr std::size_t kLeast = 2 * kAttentionKeys;
    const std::size_t parts = (kTasks + tasks - 1) / tasks;
    const std::size_t even = (positions + parts - 1) / parts;
    return std::max(kLeast, (even + kAttentionKeys - 1) / kAttentionKeys * kAttentionKeys);
  }

  std::vector<AttentionTask> tasks_;
  std::vector<Merge> merges_;
  std::vector<double> shares_;
  AlignedArray<float> partials_;
  std::size_t partial_floats_ = 0;
  std::size_t most_rows_ = 0;
  std::size_t operations_ = 0;
};

}  // namespace

void attention(const AttentionShape& shape, std::span<const AttentionSequence> sequences) {
  assert(shape.causal || shape.window == 0);
  AttentionPlan& plan = AttentionPlan::of_this_thread();
  plan.make(shape, sequences);
  plan.run(shape);
  plan.add_up_shares(shape, sequences);
}

}  // namespace ballast::kernels
#endif  // HWY_ONCE
