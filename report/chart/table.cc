#include "report/chart/table.h"

#include "report/chart/text.h"

namespace ballast::report {

Table::Table(std::string_view caption, const std::vector<Column>& columns)
    : caption_(escape(caption)), columns_(columns) {}

void Table::add_row(const std::vector<std::string>& cells) {
  rows_ += "<tr>";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    rows_ += (columns_[i].is_number ? "<td class=\"figure-cell\">" : "<td>") + cells[i] + "</td>";
  }
  rows_ += "</tr>\n";
}

std::string Table::html() const {
  return table_html(true);
}

std::string Table::folded_html() const {
  return "<details><summary>" + caption_ + "</summary>\n" + table_html(false) + "</details>\n";
}

std::string Table::table_html(bool with_caption) const {
  // Boxes that scroll must be reachable by keyboard.
  std::string code = "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"" + caption_ + "\"><table>\n";
  if (with_caption) code += "<caption>" + caption_ + "</caption>\n";
  code += "<thead><tr>";
  for (const Column& column : columns_) {
    code += (column.is_number ? "<th scope=\"col\" class=\"figure-cell\">" : "<th scope=\"col\">") +
            escape(column.heading) + "</th>";
  }
  return code + "</tr></thead>\n<tbody>\n" + rows_ + "</tbody></table></div>\n";
}

std::string token_html(std::string_view token_text) {
  return "<code>" + escape(shortened(visible(token_text), 40)) + "</code>";
}

std::string paragraph(std::string_view html) {
  return "<p>" + std::string(html) + "</p>\n";
}

std::string nothing_recorded() {
  return "<p class=\"none\">Nothing was recorded for this figure.</p>\n";
}

}  // namespace ballast::report
