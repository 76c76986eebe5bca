#include "files/text_file.h"

#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "error_message.h"
#include "file_bytes.h"
#include "temporary_directory.h"

namespace ballast::files {
namespace {

TEST_CASE("text with a byte order mark and Windows line ends is read like Unix text") {
  CHECK(with_unix_line_ends("a\r\nb\r\n\r\n") == "a\nb\n\n");
  CHECK(with_unix_line_ends("\xEF\xBB\xBF"
                            "a\r\n") == "a\n");
  CHECK(with_unix_line_ends("a\rb\r\r\nc\r") == "a\rb\r\nc\r");
  CHECK(with_unix_line_ends("a\n\xEF\xBB\xBF") == "a\n\xEF\xBB\xBF");
  CHECK(with_unix_line_ends("\r\n") == "\n");
  CHECK(with_unix_line_ends("") == "");
}

TEST_CASE("lines are read without their line ends") {
  const test::TemporaryDirectory directory;
  const auto lines = [&](const std::string& text) {
    return read_text_lines(test::write_file(directory / "text.txt", text));
  };
  CHECK(lines("\xEF\xBB\xBF"
              "a\r\n\r\nb") == std::vector<std::string>{"a", "", "b"});
  CHECK(lines("a\n\nb\n") == std::vector<std::string>{"a", "", "b"});
  CHECK(test::error_message([&] { lines("\xEF\xBB\xBF"); }) == test::Contains("text.txt: is empty"));
  CHECK(test::error_message([&] {
          lines(
              std::string("\xFF\xFE"
                          "a\0\n\0",
                          6));
        }) == test::Contains("is UTF-16"));
  CHECK(test::error_message([&] { lines("a\xFF\n"); }) == test::Contains("text.txt: is not UTF-8"));
}

}  // namespace
}  // namespace ballast::files
