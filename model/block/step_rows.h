// The rows that linears read in one step, and the sequence that each row belongs to.
#ifndef BALLAST_MODEL_BLOCK_STEP_ROWS_H_
#define BALLAST_MODEL_BLOCK_STEP_ROWS_H_

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace ballast::model {

class AdapterPart;

/// Describes the rows of a step: one for each token of its sequences, or some of these. A view, which its source must
/// outlive.
class StepRows {
 public:
  /// Describes `count` rows outside of a step, which belong to no sequence.
  static StepRows outside(std::size_t count) {
    StepRows rows;
    rows.count_ = count;
    return rows;
  }

  StepRows() = default;

  /// Describes rows that are grouped by sequence: the rows of sequence i end before row ends[i].
  /// `adapters`: of each sequence, null where it has none; or empty.
  explicit StepRows(std::span<const std::size_t> ends, std::span<const AdapterPart* const> adapters = {})
      : ends_(ends), adapters_(adapters), count_(ends.empty() ? 0 : ends.back()) {}

  /// Describes some of these rows in another order: row i of the result is row chosen[i] of these. Precondition: these
  /// were not chosen themselves.
  StepRows choose(std::span<const std::size_t> chosen) const {
    StepRows rows = *this;
    rows.chosen_ = chosen;
    rows.count_ = chosen.size();
    return rows;
  }

  std::size_t count() const { return count_; }

  /// Returns the chosen rows; empty if these are all rows of the step in their order.
  std::span<const std::size_t> chosen() const { return chosen_; }

  bool have_sequences() const { return !ends_.empty(); }

  /// Returns the step's index of the sequence that a row belongs to. Precondition: have_sequences().
  std::size_t sequence_of(std::size_t row) const {
    const std::size_t own = chosen_.empty() ? row : chosen_[row];
    return static_cast<std::size_t>(std::ranges::upper_bound(ends_, own) - ends_.begin());
  }

  /// Returns what adapters add to each sequence's rows: null where there is nothing; empty if that holds for all.
  std::span<const AdapterPart* const> adapters() const { return adapters_; }

  /// Appends the rows of a sequence. Precondition: have_sequences().
  void add_rows_of(std::size_t sequence, std::vector<std::size_t>& rows) const {
    if (chosen_.empty()) {
      for (std::size_t row = first_of(sequence); row < ends_[sequence]; ++row) rows.push_back(row);
      return;
    }
    for (std::size_t row = 0; row < count_; ++row) {
      if (sequence_of(row) == sequence) rows.push_back(row);
    }
  }

  /// Returns the first row of a sequence. Precondition: the rows were not chosen.
  std::size_t first_of(std::size_t sequence) const { return sequence == 0 ? 0 : ends_[sequence - 1]; }

 private:
  std::span<const std::size_t> ends_;
  std::span<const AdapterPart* const> adapters_;
  std::span<const std::size_t> chosen_;
  std::size_t count_ = 0;
};

}  // namespace ballast::model

#endif  // BALLAST_MODEL_BLOCK_STEP_ROWS_H_
