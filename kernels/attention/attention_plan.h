// How a call of attention is cut into tasks.
#ifndef BALLAST_KERNELS_ATTENTION_ATTENTION_PLAN_H_
#define BALLAST_KERNELS_ATTENTION_ATTENTION_PLAN_H_

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/attention/attention_task.h"
#include "kernels/scratch.h"

namespace ballast::kernels {

/// The tasks of one call. A thread keeps it for its next call, so that a token costs no allocation.
class AttentionPlan {
 public:
  /// Tasks that lie side by side and differ in the part of the positions alone.
  struct Merge {
    std::size_t first;
    std::size_t count;
  };

  AttentionPlan(const AttentionPlan&) = delete;
  AttentionPlan& operator=(const AttentionPlan&) = delete;

  static AttentionPlan& of_this_thread();

  /// Where a task is so long that others would wait for it, its parts become tasks of their own (flash decoding): few
  /// heads and queries must still share out evenly. What is computed is the same either way.
  void make(const AttentionShape& shape, std::span<const AttentionSequence> sequences);

  std::span<const AttentionTask> tasks() const { return tasks_; }
  std::span<const Merge> merges() const { return merges_; }
  std::size_t threads() const { return threads_; }
  std::size_t merge_threads() const;
  std::size_t most_rows() const { return most_rows_; }

  /// Adds up the tasks' shares of the first token, in order.
  void add_up_shares(const AttentionShape& shape, std::span<const AttentionSequence> sequences) const;

 private:
  AttentionPlan() = default;

  void add(const AttentionShape& shape, const AttentionTask& whole, double longest);
  void add_parts(const AttentionShape& shape, const AttentionTask& whole);
  void lay_out(const AttentionShape& shape);

  std::vector<AttentionTask> tasks_;
  std::vector<Merge> merges_;
  std::vector<double> shares_;
  AlignedArray<float> partials_;
  std::size_t partial_floats_ = 0;
  std::size_t most_rows_ = 0;
  std::size_t threads_ = 1;
};

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_ATTENTION_ATTENTION_PLAN_H_
