// HTML tables and the paragraphs around them.
#ifndef BALLAST_REPORT_CHART_TABLE_H_
#define BALLAST_REPORT_CHART_TABLE_H_

#include <string>
#include <string_view>
#include <vector>

namespace ballast::report {

/// An HTML table. Cells are HTML. Columns hold text, aligned left, or numbers, aligned right.
class Table {
 public:
  struct Column {
    std::string heading;
    bool is_number = true;
  };

  Table(std::string_view caption, const std::vector<Column>& columns);

  /// One cell per column.
  void add_row(const std::vector<std::string>& cells);

  /// Returns the table in a box that scrolls when the window is narrower.
  std::string html() const;

  /// Returns the table folded behind a summary line.
  std::string folded_html() const;

 private:
  std::string table_html(bool with_caption) const;

  std::string caption_;
  std::vector<Column> columns_;
  std::string rows_;
};

/// Returns a token's text in a fixed-width font with all characters visible.
std::string token_html(std::string_view token_text);

std::string paragraph(std::string_view html);

/// Returns the text shown in place of a figure without data.
std::string nothing_recorded();

}  // namespace ballast::report

#endif  // BALLAST_REPORT_CHART_TABLE_H_
