// Divides a call of attention into tasks.
#ifndef BALLAST_KERNELS_ATTENTION_ATTENTION_PLAN_H_
#define BALLAST_KERNELS_ATTENTION_ATTENTION_PLAN_H_

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "kernels/attention/attention_task.h"
#include "kernels/scratch.h"

namespace ballast::kernels {

/// The tasks of one call. A thread keeps the object for its next call, so that a token needs no allocation.
class AttentionPlan {
 public:
  /// A part of the positions of a merge: rows of a task, which has other queries, too, if they share pages.
  struct MergedPart {
    std::size_t task;
    std::size_t first_query;  ///< index of the merge's first query in the task
  };

  /// Queries of one sequence whose positions are divided among several tasks.
  struct Merge {
    AttentionTask whole;
    std::size_t first_part;
    std::size_t part_count;
  };

  AttentionPlan(const AttentionPlan&) = delete;
  AttentionPlan& operator=(const AttentionPlan&) = delete;

  static AttentionPlan& of_this_thread();

  /// Creates the tasks. If a task is so long that other threads would wait for it, its parts become separate tasks
  /// (flash decoding), so that few heads and queries still divide evenly. Pages that sequences with few queries share,
  /// parts of a common beginning, are read by one task for all of them. The results do not depend on the division.
  void make(const AttentionShape& shape, std::span<const AttentionSequence> sequences);

  std::span<const AttentionTask> tasks() const { return tasks_; }
  std::span<const Merge> merges() const { return merges_; }
  std::span<const MergedPart> parts(const Merge& merge) const {
    return std::span(parts_).subspan(merge.first_part, merge.part_count);
  }
  std::size_t threads() const { return threads_; }
  std::size_t merge_threads() const;
  std::size_t most_rows() const { return most_rows_; }

  /// Adds up the tasks' shares of the first token, in order.
  void add_up_shares(const AttentionShape& shape, std::span<const AttentionSequence> sequences) const;

 private:
  AttentionPlan() = default;

  /// A sequence, and the position of its queries.
  struct Entry {
    const AttentionSequence* sequence;
    std::span<const AttentionQuery> queries;
    std::size_t shared = 0;  ///< positions in pages shared with the entry before
  };

  /// Returns the queries of adjacent entries.
  static std::span<const AttentionQuery> queries_of(std::span<const Entry> entries) {
    return {entries.front().queries.data(), std::to_address(entries.back().queries.end())};
  }

  void order(const AttentionShape& shape, std::span<const AttentionSequence> sequences);
  void add(const AttentionShape& shape, const AttentionTask& whole, double longest);
  void add_parts(const AttentionTask& whole);
  void add_entries(const AttentionShape& shape, std::span<const Entry> entries, double longest);
  void add_sharing(const AttentionShape& shape, std::span<const Entry> entries, double longest);
  void add_part(AttentionTask task, std::span<const Entry> entries, std::size_t first_merge, std::size_t part);
  void lay_out(const AttentionShape& shape);

  std::vector<Entry> entries_;
  std::vector<AttentionQuery> queries_;
  std::vector<AttentionTask> tasks_;
  std::vector<Merge> merges_;
  std::vector<MergedPart> parts_;
  std::vector<double> shares_;
  AlignedArray<float> partials_;
  std::size_t partial_floats_ = 0;
  std::size_t most_rows_ = 0;
  std::size_t threads_ = 1;
};

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_ATTENTION_ATTENTION_PLAN_H_
