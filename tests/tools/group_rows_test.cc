#include "tools/commands/group_rows.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace ballast::tools {
namespace {

GroupRow row(const std::string& name, const std::string& format, std::size_t columns, std::uint64_t bytes) {
  GroupRow made = {.name = name, .tensors = 1, .weights = bytes, .least_bytes = bytes, .most_bytes = bytes};
  set_format(made, format, columns);
  return made;
}

TEST_CASE("rows that differ only in the number of 16-bit columns become one row with a range") {
  std::vector<GroupRow> rows;
  for (std::size_t columns = 0; columns < 40; ++columns) {
    const std::string ending = columns == 0 ? "" : " + " + std::to_string(columns) + " columns f16";
    rows.push_back(row("layers.*.q_proj", "int8-g32-s8" + ending, columns, 100));
    rows.push_back(row("layers.*.k_proj", "int8-g32-s8 + 3 columns f16", 3, 10));
  }
  rows.push_back(row("layers.*.q_proj", "int4-g32", 0, 50));
  const std::vector<GroupRow> shown = condensed(rows);
  REQUIRE(shown.size() == 3);
  CHECK(shown[0].format_text() == "int8-g32-s8 + 0 to 39 columns f16");
  CHECK(shown[0].tensors == 40);
  CHECK(shown[0].most_bytes == 4000);
  CHECK(shown[1].format_text() == "int8-g32-s8 + 3 columns f16");
  CHECK(shown[2].format_text() == "int4-g32");
  CHECK(left_out_text(shown.size(), rows.size()) == "--verbose prints all 81 rows\n");
  CHECK(left_out_text(81, 81).empty());
}

TEST_CASE("formats of one name become one row if they do not fit the screen") {
  std::vector<GroupRow> rows;
  for (int name = 0; name < 10; ++name) {
    for (const int bits : {8, 4, 6}) {
      rows.push_back(row("m" + std::to_string(name), "int" + std::to_string(bits), 0, 1000));
      rows.back().weights = 8000U / static_cast<unsigned>(bits);
    }
  }
  const std::vector<GroupRow> shown = condensed(rows);
  REQUIRE(shown.size() == 10);
  CHECK(shown[3].name == "m3");
  CHECK(shown[3].format_text() == "3 formats, int4 to int8");
  CHECK(condensed({rows.begin(), rows.begin() + 24}).size() == 24);
}

TEST_CASE("a table is never longer than a screen, and its sums include everything") {
  std::vector<GroupRow> rows;
  for (std::size_t i = 0; i < 100; ++i) rows.push_back(row("m" + std::to_string(i), "int8", 0, 1 + i % 37));
  const std::vector<GroupRow> shown = condensed(rows);
  CHECK(shown.size() <= kRowsOfScreen);
  CHECK(shown.back().name == std::to_string(100 - (shown.size() - 1)) + " smaller ones");
  std::uint64_t bytes = 0;
  for (const GroupRow& each : rows) bytes += each.most_bytes;
  for (const GroupRow& each : shown) bytes -= each.most_bytes;
  CHECK(bytes == 0);
}

}  // namespace
}  // namespace ballast::tools
