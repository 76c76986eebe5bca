#include "tools/terminal/table.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "ballast/text.h"

namespace ballast::tools {

Table::Table(std::vector<Column> columns) {
  std::vector<std::string> titles;
  for (Column& column : columns) {
    alignments_.push_back(column.align);
    titles.push_back(std::move(column.title));
  }
  if (std::any_of(titles.begin(), titles.end(), [](const std::string& title) { return !title.empty(); })) {
    rows_.push_back(std::move(titles));
  }
}

void Table::add_row(std::vector<std::string> cells) {
  assert(cells.size() == alignments_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  std::vector<std::size_t> widths(alignments_.size(), 0);
  for (const std::vector<std::string>& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], text::display_width(row[i]));
  }
  std::string all;
  for (const std::vector<std::string>& row : rows_) all += line(row, widths) + "\n";
  return all;
}

std::string Table::line(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths) const {
  std::string joined;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string padding(widths[i] - text::display_width(cells[i]), ' ');
    if (i != 0) joined += "  ";
    joined += alignments_[i] == Align::kLeft ? cells[i] + padding : padding + cells[i];
  }
  joined.erase(joined.find_last_not_of(' ') + 1);
  return joined;
}

}  // namespace ballast::tools
