#include "files/content_hash.h"

#include <doctest/doctest.h>

#include <string>

#include "file_bytes.h"

namespace ballast::files {
namespace {

TEST_CASE("a content has one hash, whole or in parts, which is that of other programs") {
  const std::string text = "content";
  CHECK(content_hash({test::as_bytes("con"), test::as_bytes("tent")}) == content_hash({test::as_bytes(text)}));
  CHECK(content_hash({test::as_bytes(text)}) != content_hash({test::as_bytes("contents")}));
  // xxhsum -H3 of the empty file.
  CHECK(content_digits(std::string_view()) == "2d06800538d394c2");
  CHECK(content_digits(text) == content_digits(test::as_bytes(text)));
}

}  // namespace
}  // namespace ballast::files
