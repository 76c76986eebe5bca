#include "serve/service/api_keys.h"

#include <doctest/doctest.h>

#include "error_message.h"
#include "file_bytes.h"
#include "temporary_directory.h"

namespace ballast::serve {
namespace {

TEST_CASE("only a key of the file gives its user's name") {
  const test::TemporaryDirectory folder;
  test::write_file(folder.path() / "keys", "# who may ask\nalice secret-of-alice\n\nbob  secret-of-bob\n");
  const ApiKeys keys(folder.path() / "keys");
  CHECK(keys.name_of("Bearer secret-of-alice") == "alice");
  CHECK(keys.name_of("bearer secret-of-bob") == "bob");
  for (const char* wrong :
       {"", "Bearer", "Bearer ", "Bearer secret-of-alic", "Bearer secret-of-alicee", "Bearer alice", "secret-of-alice",
        "Basic secret-of-alice", "Bearer  secret-of-alice", "Bearer secret-of-alicesecret-of-alice"}) {
    CAPTURE(wrong);
    CHECK_FALSE(keys.name_of(wrong).has_value());
  }
}

TEST_CASE("an invalid file of keys is refused, and the error names the line") {
  const test::TemporaryDirectory folder;
  const auto message = [&](const std::string& text) {
    test::write_file(folder.path() / "keys", text);
    return test::error_message([&] { ApiKeys(folder.path() / "keys"); });
  };
  CHECK(message("alice secret-of-alice\nbob\n").find("line 2") != std::string::npos);
  CHECK(message("alice short\n").find("line 1") != std::string::npos);
  CHECK(message("alice two words-of-a-key\n").find("line 1") != std::string::npos);
  CHECK(message("# nobody\n").find("has no keys") != std::string::npos);
}

}  // namespace
}  // namespace ballast::serve
