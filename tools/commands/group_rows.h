// Rows of the tables of tensors that convert, export and inspect print, limited to a screen.
#ifndef BALLAST_TOOLS_COMMANDS_GROUP_ROWS_H_
#define BALLAST_TOOLS_COMMANDS_GROUP_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ballast::tools {

/// Tensors with a common name, "layers.*.mlp.down_proj", that share a row.
struct GroupRow {
  std::string name;
  std::string format{};        ///< without the type of 16-bit columns
  std::string columns_type{};  ///< "f16": type of the columns in 16 bits; empty: none
  std::size_t least_columns = 0;
  std::size_t most_columns = 0;
  std::size_t tensors = 0;
  std::uint64_t weights = 0;
  std::uint64_t bytes_before = 0;
  std::uint64_t least_bytes = 0;  ///< after the conversion
  std::uint64_t most_bytes = 0;
  double cost = 0;
  double next_gain = 0;

  double bits() const { return weights == 0 ? 0 : 8 * static_cast<double>(most_bytes) / static_cast<double>(weights); }
  std::string format_text() const;  ///< "int8-g32-s8 + 2 to 29 columns f16"
};

/// Splits "int8-g64 + 7 columns f16", the form of reports, into the fields of a row.
void set_format(GroupRow& row, const std::string& format, std::size_t outlier_columns);

inline constexpr std::size_t kRowsOfScreen = 24;

/// Merges rows until they fit a screen: always those of a name and a format that differ in the number of 16-bit
/// columns; then those of a name; then the smallest, into one row at the end. The order is that of the first rows.
std::vector<GroupRow> condensed(const std::vector<GroupRow>& rows, std::size_t most_rows = kRowsOfScreen);

/// Returns "--verbose prints all 150 rows", a line for below a table that shows fewer rows than there are; else empty.
std::string left_out_text(std::size_t shown, std::size_t all);

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_COMMANDS_GROUP_ROWS_H_
