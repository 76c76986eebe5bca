#include "tools/commands/group_rows.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

namespace ballast::tools {

namespace {

void merge(GroupRow& row, const GroupRow& other) {
  row.least_columns = std::min(row.least_columns, other.least_columns);
  row.most_columns = std::max(row.most_columns, other.most_columns);
  if (row.columns_type.empty()) row.columns_type = other.columns_type;
  row.tensors += other.tensors;
  row.weights += other.weights;
  row.bytes_before += other.bytes_before;
  row.least_bytes += other.least_bytes;
  row.most_bytes += other.most_bytes;
  row.cost += other.cost;
  row.next_gain = std::max(row.next_gain, other.next_gain);
}

std::vector<GroupRow> merged_by(const std::vector<GroupRow>& rows,
                                const std::function<std::string(const GroupRow&)>& key) {
  std::vector<GroupRow> merged;
  std::map<std::string, std::size_t> places;
  for (const GroupRow& row : rows) {
    const auto [found, is_new] = places.emplace(key(row), merged.size());
    if (is_new) {
      merged.push_back(row);
    } else {
      merge(merged[found->second], row);
    }
  }
  return merged;
}

/// Merges the rows of each name into one, whose format lists all formats.
std::vector<GroupRow> merged_by_name(const std::vector<GroupRow>& rows) {
  std::map<std::string, std::vector<const GroupRow*>> formats;
  for (const GroupRow& row : rows) formats[row.name].push_back(&row);
  std::vector<GroupRow> merged = merged_by(rows, [](const GroupRow& row) { return row.name; });
  for (GroupRow& row : merged) {
    const std::vector<const GroupRow*>& parts = formats[row.name];
    if (parts.size() == 1) continue;
    const auto [least, most] =
        std::ranges::minmax_element(parts, {}, [](const GroupRow* part) { return part->bits(); });
    row.format = std::to_string(parts.size()) + " formats, " + (*least)->format + " to " + (*most)->format;
  }
  return merged;
}

std::vector<GroupRow> with_small_ones_merged(const std::vector<GroupRow>& rows, std::size_t most_rows) {
  std::vector<std::uint64_t> sizes;
  for (const GroupRow& row : rows) sizes.push_back(row.most_bytes);
  const auto nth = sizes.begin() + static_cast<std::ptrdiff_t>(most_rows - 1);
  std::ranges::nth_element(sizes, nth, std::greater());
  std::vector<GroupRow> shown;
  GroupRow others;
  std::size_t count = 0;
  for (const GroupRow& row : rows) {
    if (row.most_bytes > *nth) {
      shown.push_back(row);
    } else if (count++ == 0) {
      others = row;
    } else {
      merge(others, row);
    }
  }
  others.name = std::to_string(count) + " smaller ones";
  others.format.clear();
  others.columns_type.clear();
  shown.push_back(others);
  return shown;
}

}  // namespace

std::string GroupRow::format_text() const {
  if (columns_type.empty()) return format;
  const std::string count = least_columns == most_columns
                                ? std::to_string(most_columns)
                                : std::to_string(least_columns) + " to " + std::to_string(most_columns);
  return format + " + " + count + " columns " + columns_type;
}

void set_format(GroupRow& row, const std::string& format, std::size_t outlier_columns) {
  const std::string columns = " + " + std::to_string(outlier_columns) + " columns ";
  const std::size_t at = outlier_columns == 0 ? std::string::npos : format.find(columns);
  row.format = format.substr(0, at);
  if (at == std::string::npos) return;
  row.columns_type = format.substr(at + columns.size());
  row.least_columns = row.most_columns = outlier_columns;
}

std::vector<GroupRow> condensed(const std::vector<GroupRow>& rows, std::size_t most_rows) {
  std::vector<GroupRow> fewer = merged_by(rows, [](const GroupRow& row) { return row.name + "\n" + row.format; });
  if (fewer.size() > most_rows) fewer = merged_by_name(fewer);
  if (fewer.size() > most_rows) fewer = with_small_ones_merged(fewer, most_rows);
  return fewer;
}

std::string left_out_text(std::size_t shown, std::size_t all) {
  if (shown == all) return {};
  return "--verbose prints all " + std::to_string(all) + " rows\n";
}

}  // namespace ballast::tools
