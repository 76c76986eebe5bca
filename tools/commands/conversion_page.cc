#include "tools/commands/conversion_page.h"

#include <vector>

#include "ballast/text.h"
#include "tools/commands/group_rows.h"
#include "tools/terminal/console.h"
#include "tools/terminal/table.h"
#include "tools/terminal/units.h"

namespace ballast::tools {

namespace {

std::vector<GroupRow> rows_of(const ConvertReport& report) {
  std::vector<GroupRow> rows;
  for (const TensorGroupReport& group : report.groups) {
    rows.push_back({.name = group.name,
                    .tensors = group.tensors,
                    .weights = group.weights,
                    .bytes_before = group.bytes_before,
                    .least_bytes = group.bytes_after,
                    .most_bytes = group.bytes_after,
                    .cost = group.cost,
                    .next_gain = group.next_gain});
    set_format(rows.back(), group.format, group.outlier_columns);
  }
  return rows;
}

}  // namespace

std::string conversion_page(const ConvertReport& report, const std::filesystem::path& output, bool verbose) {
  std::string page;
  for (const std::string& note : report.notes) page += "- " + note + "\n";
  if (!page.empty()) page += "\n";

  using enum Table::Align;
  std::vector<Table::Column> columns = {{"tensors"},        {"format"},        {"count", kRight},
                                        {"before", kRight}, {"after", kRight}, {"bits/weight", kRight}};
  const bool allocated = report.divergence.has_value();
  if (allocated) columns.insert(columns.end(), {{"costs KL", kRight}, {"next MB saves", kRight}});
  Table table(columns);
  const std::vector<GroupRow> all = rows_of(report);
  const std::vector<GroupRow> shown = verbose ? all : condensed(all);
  for (const GroupRow& row : shown) {
    std::vector<std::string> cells = {report::printable(row.name),        row.format_text(),
                                      report::count(row.tensors),         text::format_bytes(row.bytes_before),
                                      text::format_bytes(row.most_bytes), format_fixed(row.bits(), 2)};
    if (allocated) {
      const bool chosen = row.cost > 0 || row.next_gain > 0;
      cells.push_back(chosen ? format_fixed(row.cost, 6) : "");
      cells.push_back(chosen ? format_fixed(row.next_gain * 1e6, 6) : "");
    }
    table.add_row(cells);
  }
  return page + table.text() + left_out_text(shown.size(), all.size()) + "\n" + output.string() + ": " +
         text::format_bytes(report.bytes_before) + " became " + text::format_bytes(report.bytes_after) + ", " +
         format_fixed(report.bits_per_weight, 2) + " bits per weight\n";
}

}  // namespace ballast::tools
