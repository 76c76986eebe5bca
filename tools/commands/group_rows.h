// Rows of the tables of tensors that convert, export and inspect print, at most a screen of them.
#ifndef BALLAST_TOOLS_COMMANDS_GROUP_ROWS_H_
#define BALLAST_TOOLS_COMMANDS_GROUP_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ballast::tools {

/// Tensors of one name, "layers.*.mlp.down_proj", that are shown together.
struct GroupRow {
  std::string name;
  std::string format{};        ///< without what `columns_type` is about
  std::string columns_type{};  ///< "f16": of columns in 16 bits; empty: there are none
  std::size_t least_columns = 0;
  std::size_t most_columns = 0;
  std::size_t tensors = 0;
  std::uint64_t weights = 0;
  std::uint64_t bytes_before = 0;
  std::uint64_t least_bytes = 0;  ///< after
  std::uint64_t most_bytes = 0;
  double cost = 0;
  double next_gain = 0;

  double bits() const { return weights == 0 ? 0 : 8 * static_cast<double>(most_bytes) / static_cast<double>(weights); }
  std::string format_text() const;  ///< "int8-g32-s8 + 2 to 29 columns f16"
};

/// Splits "int8-g64 + 7 columns f16", as reports have it, for a row.
void set_format(GroupRow& row, const std::string& format, std::size_t outlier_columns);

inline constexpr std::size_t kRowsOfScreen = 24;

/// Puts rows together until they fit a screen: first those of a name and a format that differ in the number of columns
/// in 16 bits, always; then those of a name; then the smallest, into one row at the end. The order is that of the first
/// rows.
std::vector<GroupRow> condensed(const std::vector<GroupRow>& rows, std::size_t most_rows = kRowsOfScreen);

/// "--verbose prints all 150 rows": a line for below a table that shows fewer rows than there are; else empty.
std::string left_out_text(std::size_t shown, std::size_t all);

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_COMMANDS_GROUP_ROWS_H_
