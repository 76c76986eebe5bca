// How a call of attention is cut into tasks.
#ifndef BALLAST_KERNELS_ATTENTION_ATTENTION_PLAN_H_
#define BALLAST_KERNELS_ATTENTION_ATTENTION_PLAN_H_

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "kernels/attention/attention_task.h"
#include "kernels/scratch.h"

namespace ballast::kernels {

/// The tasks of one call. A thread keeps it for its next call, so that a token costs no allocation.
class AttentionPlan {
 public:
  /// A part of the positions of a merge: rows of a task, which has other queries beside them where they share pages.
  struct MergedPart {
    std::size_t task;
    std::size_t first_query;  ///< of the merge's, among the task's
  };

  /// Queries of one sequence that several tasks see a part of the positions for.
  struct Merge {
    AttentionTask whole;
    std::size_t first_part;
    std::size_t part_count;
  };

  AttentionPlan(const AttentionPlan&) = delete;
  AttentionPlan& operator=(const AttentionPlan&) = delete;

  static AttentionPlan& of_this_thread();

  /// Where a task is so long that others would wait for it, its parts become tasks of their own (flash decoding): few
  /// heads and queries must still share out evenly. What sequences with few queries keep in the same pages, parts of a
  /// common beginning, is read by one task for all of them. What is computed is the same either way.
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

  /// A sequence, and where its queries lie.
  struct Entry {
    const AttentionSequence* sequence;
    std::span<const AttentionQuery> queries;
    std::size_t shared = 0;  ///< positions in the same pages as those of the entry before
  };

  /// Those of neighbours.
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
