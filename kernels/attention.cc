#include "kernels/attention.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/attention_scratch.h"
#include "kernels/parallel.h"
#include "kernels/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>
// After highway.h:
#include "kernels/attention_block-inl.h"

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

struct PositionRange {
  std::size_t begin;
  std::size_t end;
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

#endif  // BALLAST_KERNELS_ATTENTION_ONCE_
}  // namespace ballast::kernels

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
    scale_values(src, count, shape.scale, scratch.q + i * count);
  }
}

void store_outputs(const AttentionShape& shape, const AttentionTask& task, const AttentionScratch& scratch) {
  const std::size_t group = shape.heads / shape.kv_heads;
  const std::size_t size = shape.output_size();
  for (std::size_t row = 0; row < task.queries * group; ++row) {
    float* dst = task.sequence->out + (task.first_query + row / group) * shape.heads * size +
                 (task.kv_head * group + row % group) * size;
    scale_values(scratch.sums + row * size, size, 1.0F / scratch.total[row], dst);
    if (task.first_token_share != nullptr) {
      task.first_token_share[row % group] +=
          std::exp(static_cast<double>(scratch.first_score[row]) - scratch.maximum[row]) / scratch.total[row];
    }
  }
}

/// Adds what the task's queries see in one part to their running softmax.
void attend_part(const AttentionShape& shape, const AttentionTask& task, const AttentionPart& part,
                 const AttentionScratch& scratch) {
  const std::size_t group = shape.heads / shape.kv_heads;
  const std::size_t rows = task.queries * group;
  const std::size_t length = task.sequence->kv.length;
  const auto visible = [&](std::size_t query) {
    return visible_positions(shape, part.sinks, length, task.position(query));
  };
  const PositionRange all = {visible(0).begin, visible(task.queries - 1).end};
  if (all.begin == all.end) return;
  gather_queries(shape, task, part, scratch);
  for (std::size_t key = all.begin, count = 0; key < all.end; key += count) {
    const std::size_t slot = key % part.keys.capacity;
    count = std::min({kAttentionKeys, all.end - key, part.keys.capacity - slot});
    score_block({part.keys, shape.kv_heads, task.kv_head, slot, count, shape.head_size}, rows, scratch);
    for (std::size_t row = 0; row < rows; ++row) {
      const PositionRange seen = visible(row / group);
      const std::size_t begin = std::clamp(seen.begin, key, key + count) - key;
      const std::size_t end = std::clamp(seen.end, key, key + count) - key;
      float* scores = scratch.scores + row * kAttentionKeys;
      if (key == 0 && begin == 0 && end != 0) scratch.first_score[row] = scores[0];
      softmax_part(scores, begin, end, count, scratch.maximum[row], scratch.total[row], scratch.rescale[row]);
    }
    decode_value_block({part.values, shape.kv_heads, task.kv_head, slot, count, shape.output_size()}, scratch.values);
    accumulate_values(shape.output_size(), rows, count, scratch);
  }
}

void attend(const AttentionShape& shape, const AttentionTask& task, float* memory) {
  const AttentionSequence& sequence = *task.sequence;
  const KeyValueView& kv = sequence.kv;
  const std::size_t rows = task.queries * (shape.heads / shape.kv_heads);
  const AttentionScratch scratch(memory, rows, shape.head_size, shape.output_size());
  std::fill_n(scratch.maximum, rows, -std::numeric_limits<float>::infinity());
  std::fill_n(scratch.first_score, rows, -std::numeric_limits<float>::infinity());
  std::fill_n(scratch.total, rows, 0.0F);
  std::fill_n(scratch.sums, rows * shape.output_size(), 0.0F);
  if (shape.window != 0 && shape.sinks != 0) {
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
  store_outputs(shape, task, scratch);
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ballast::kernels {

HWY_EXPORT(attend);

void attention(const AttentionShape& shape, std::span<const AttentionSequence> sequences) {
  assert(shape.causal || shape.window == 0);
  const std::size_t group = shape.heads / shape.kv_heads;
  const std::size_t block = std::max<std::size_t>(1, kAttentionRows / group);
  std::vector<AttentionTask> tasks;
  std::size_t operations = 0;
  std::size_t most_queries = 0;
  for (const AttentionSequence& sequence : sequences) {
    const std::size_t longest = shape.window == 0 ? sequence.kv.length : shape.sinks + shape.window;
    operations += shape.heads * sequence.queries * std::min(sequence.kv.length, longest) * shape.head_size;
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
  const ThreadScratch scratch(threads,
                              AttentionScratch::floats(most_queries * group, shape.head_size, shape.output_size()));
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

}  // namespace ballast::kernels
#endif  // HWY_ONCE
