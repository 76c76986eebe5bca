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

}  // namespace
}  // namespace ballast::tools
