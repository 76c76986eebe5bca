// Groups of tensors for tables: the tensors that have the same role in all blocks become one row.
#ifndef BALLAST_MODEL_SOURCE_TENSOR_GROUPS_H_
#define BALLAST_MODEL_SOURCE_TENSOR_GROUPS_H_

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace ballast::model {

/// Replaces the index of the block: "model.layers.3.mlp.up_proj" becomes "model.layers.*.mlp.up_proj".
std::string group_name(const std::string& tensor);

/// Collects rows, which have at least a `name` and a count of `tensors`, in the order of their first tensor.
template <typename Row>
class GroupedTensors {
 public:
  /// Adds the row of one tensor. If a row of the same group name exists and `same_group` holds, `merge` adds the
  /// figures to it.
  template <typename SameGroup, typename Merge>
  void add(Row row, const SameGroup& same_group, const Merge& merge) {
    row.name = group_name(row.name);
    const auto it = std::ranges::find_if(
        rows_, [&](const Row& existing) { return existing.name == row.name && same_group(existing, row); });
    if (it == rows_.end()) {
      rows_.push_back(std::move(row));
      return;
    }
    it->tensors += row.tensors;
    merge(*it, row);
  }

  std::vector<Row> finish() { return std::move(rows_); }

 private:
  std::vector<Row> rows_;
};

}  // namespace ballast::model

#endif  // BALLAST_MODEL_SOURCE_TENSOR_GROUPS_H_
