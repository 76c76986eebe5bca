#include "ballast/hub_name.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "temporary_directory.h"

namespace ballast {
namespace {

TEST_CASE("names on the Hub have an owner, a name, and may have a GGUF and a revision") {
  CHECK(parse_hub_name("HuggingFaceTB/SmolLM2-135M") == HubName{"HuggingFaceTB/SmolLM2-135M", "", ""});
  CHECK(parse_hub_name("a/b.c-1@main") == HubName{"a/b.c-1", "", "main"});
  CHECK(parse_hub_name("a/b@refs/pr/1") == HubName{"a/b", "", "refs/pr/1"});
  CHECK(parse_hub_name("a/b-GGUF/b-Q4_K_M.gguf") == HubName{"a/b-GGUF", "b-Q4_K_M.gguf", ""});
  CHECK(parse_hub_name("a/b-GGUF/bf16/b-00001-of-00002.gguf@v1") ==
        HubName{"a/b-GGUF", "bf16/b-00001-of-00002.gguf", "v1"});
}

TEST_CASE("what can only be a path is no name on the Hub") {
  for (const char* path : {"", "model", "/a/b", "./a/b", "../a/b", "a/b/", "a/b/c", "a/../b", "a/b.gguf", "~/a",
                           "a b/c", "a/b@", "a/-b", "a/b/c.gguf/d", "a/b\nc"}) {
    CAPTURE(path);
    CHECK_FALSE(parse_hub_name(path));
  }
  CHECK_FALSE(parse_hub_name("a/" + std::string(100'000, 'b')));
}

TEST_CASE("what begins with a folder is a path") {
  const test::TemporaryDirectory folder;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  CHECK(parse_hub_name("models/tiny"));
  std::filesystem::create_directory("models");
  CHECK_FALSE(parse_hub_name("models/tiny"));
  CHECK_FALSE(parse_hub_name("models/tiny/tiny.gguf"));
  CHECK(parse_hub_name("other/tiny"));
  std::filesystem::current_path(before);
}

TEST_CASE("a name on the Hub is fetched by a command") {
  CHECK(hub_command({.repository = "a/b", .file = "", .revision = ""}) == "hf download a/b");
  CHECK(hub_command({.repository = "a/b", .file = "c.gguf", .revision = "v1"}) ==
        "hf download a/b c.gguf --revision v1");
}

}  // namespace
}  // namespace ballast
