// Aligned columns of text.
#ifndef BALLAST_TOOLS_TERMINAL_TABLE_H_
#define BALLAST_TOOLS_TERMINAL_TABLE_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ballast::tools {

class Table {
 public:
  enum class Align { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = Align::kLeft;
  };

  /// The line of titles is omitted if all titles are empty.
  explicit Table(std::vector<Column> columns);

  /// Adds a row with one cell per column.
  void add_row(std::vector<std::string> cells);

  /// Returns all lines, each ended by a newline and without trailing spaces.
  std::string text() const;

 private:
  std::string line(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths) const;

  std::vector<Align> alignments_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_TERMINAL_TABLE_H_
