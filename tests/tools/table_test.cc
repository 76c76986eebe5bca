#include "tools/terminal/table.h"

#include <doctest/doctest.h>

namespace ballast::tools {
namespace {

TEST_CASE("columns are as wide as their widest cell and lines end without spaces") {
  using enum Table::Align;
  Table table({{"name"}, {"size", kRight}, {"note"}});
  table.add_row({"embedding", "1 B", ""});
  table.add_row({"head", "100 MB", "tied"});
  CHECK(table.text() ==
        "name         size  note\n"
        "embedding     1 B\n"
        "head       100 MB  tied\n");
}

TEST_CASE("a table without titles has no line for them") {
  Table table({{}, {}});
  table.add_row({"a", "1"});
  table.add_row({"long", "2"});
  CHECK(table.text() ==
        "a     1\n"
        "long  2\n");
}

TEST_CASE("width is counted in columns of the terminal, not in bytes") {
  CHECK(display_width("") == 0);
  CHECK(display_width("caf\u00e9 \u00b1") == 6);
  CHECK(display_width("\u6f22\u5b57") == 4);
  CHECK(display_width("e\u0301") == 1);
  CHECK(display_width("a\xffz") == 3);
}

}  // namespace
}  // namespace ballast::tools
