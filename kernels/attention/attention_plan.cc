#include "kernels/attention/attention_plan.h"

#include <algorithm>

#include "kernels/parallel.h"

namespace ballast::kernels {
namespace {

/// Calls body(task) for every block of queries and key heads of a sequence, the task with all positions that it sees.
/// Few queries take as many key heads together as make a block: they then read pages from end to end.
template <class Body>
void for_each_block(const AttentionShape& shape, const AttentionSequence& sequence, const Body& body) {
  const std::size_t group = shape.heads / shape.kv_heads;
  const std::size_t block = std::max<std::size_t>(1, kAttentionRows / group);
  for (std::size_t query = 0; query < sequence.queries; query += block) {
    const std::size_t queries = std::min(block, sequence.queries - query);
    const std::size_t together = std::max<std::size_t>(1, kAttentionRows / (queries * group));
    for (std::size_t kv_head = 0; kv_head < shape.kv_heads; kv_head += together) {
      AttentionTask task = {.sequence = &sequence,
                            .first_kv_head = kv_head,
                            .kv_heads = std::min(together, shape.kv_heads - kv_head),
                            .first_query = query,
                            .queries = queries,
                            .sinks = sequence.window != 0 && sequence.sinks != 0,
                            .range = {},
                            .partial = nullptr,
                            .first_token_share = nullptr};
      task.range = {visible_positions(shape, sequence, false, task.position(0)).begin,
                    visible_positions(shape, sequence, false, task.position(queries - 1)).end};
      body(task);
    }
  }
}

double operations_of(const AttentionShape& shape, const AttentionTask& task) {
  return static_cast<double>(task.rows(shape) * shape.head_size) * static_cast<double>(task.range.size());
}

std::size_t parts_of(const PositionRange& range) {
  std::size_t count = 0;
  for (std::size_t begin = range.begin; begin < range.end; begin = part_end(begin)) ++count;
  return count;
}

}  // namespace

AttentionPlan& AttentionPlan::of_this_thread() {
  static thread_local AttentionPlan plan;
  return plan;
}

void AttentionPlan::make(const AttentionShape& shape, std::span<const AttentionSequence> sequences) {
  tasks_.clear();
  merges_.clear();
  partial_floats_ = most_rows_ = 0;
  double operations = 0;
  for (const AttentionSequence& sequence : sequences) {
    for_each_block(shape, sequence, [&](const AttentionTask& task) { operations += operations_of(shape, task); });
  }
  threads_ = threads_for(static_cast<std::size_t>(operations));
  // Half of what each thread has to do: the others make up for a task of that length.
  const double longest = threads_ == 1 ? operations : operations / static_cast<double>(2 * threads_);
  for (const AttentionSequence& sequence : sequences) {
    for_each_block(shape, sequence, [&](const AttentionTask& task) { add(shape, task, longest); });
  }
  lay_out(shape);
}

/// The task, or its parts when it takes more than `longest` operations; of one head each when there are too few parts.
void AttentionPlan::add(const AttentionShape& shape, const AttentionTask& whole, double longest) {
  most_rows_ = std::max(most_rows_, whole.rows(shape));
  const double pieces = operations_of(shape, whole) / longest;
  if (pieces <= 1) {
    tasks_.push_back(whole);
    return;
  }
  const auto parts = static_cast<double>(parts_of(whole.range));
  const std::size_t together = parts >= 2 * pieces ? whole.kv_heads : 1;
  AttentionTask task = whole;
  for (std::size_t head = 0; head < whole.kv_heads; head += together) {
    task.first_kv_head = whole.first_kv_head + head;
    task.kv_heads = std::min(together, whole.kv_heads - head);
    add_parts(shape, task);
  }
}

void AttentionPlan::add_parts(const AttentionShape& shape, const AttentionTask& whole) {
  const std::size_t first = tasks_.size();
  AttentionTask part = whole;
  if (whole.sinks) {
    part.range.end = part.range.begin;
    tasks_.push_back(part);
    part.sinks = false;
  }
  for (std::size_t begin = whole.range.begin; begin < whole.range.end; begin = part.range.end) {
    part.range = {begin, std::min(whole.range.end, part_end(begin))};
    tasks_.push_back(part);
  }
  const std::size_t count = tasks_.size() - first;
  if (count == 1) return;
  merges_.push_back({first, count});
  partial_floats_ += count * AttentionRows::floats(whole.rows(shape), shape.output_size());
}

/// Gives tasks the memory for what they leave: shares of their own, and rows to be merged.
void AttentionPlan::lay_out(const AttentionShape& shape) {
  shares_.assign(tasks_.size() * shape.heads, 0.0);
  partials_.grow(partial_floats_);
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    if (tasks_[i].sequence->first_token_share != nullptr) tasks_[i].first_token_share = &shares_[i * shape.heads];
  }
  float* partial = partials_.data();
  for (const Merge& merge : merges_) {
    for (std::size_t i = merge.first; i < merge.first + merge.count; ++i) {
      tasks_[i].partial = partial;
      partial += AttentionRows::floats(tasks_[i].rows(shape), shape.output_size());
    }
  }
}

std::size_t AttentionPlan::merge_threads() const {
  return threads_for(partial_floats_);
}

void AttentionPlan::add_up_shares(const AttentionShape& shape, std::span<const AttentionSequence> sequences) const {
  const std::size_t group = shape.heads / shape.kv_heads;
  for (const AttentionSequence& sequence : sequences) {
    if (sequence.first_token_share != nullptr) std::fill_n(sequence.first_token_share, shape.heads, 0.0);
  }
  for (const AttentionTask& task : tasks_) {
    if (task.first_token_share == nullptr) continue;
    double* total = task.sequence->first_token_share + task.first_kv_head * group;
    for (std::size_t h = 0; h < task.kv_heads * group; ++h) total[h] += task.first_token_share[h];
  }
}

}  // namespace ballast::kernels
