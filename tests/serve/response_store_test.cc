#include "serve/service/response_store.h"

#include <doctest/doctest.h>

#include <string>

namespace ballast::serve {
namespace {

TEST_CASE("only its own user finds a stored response") {
  ResponseStore store(1 << 20);
  store.add("a", {.user = "u", .response = "{}", .messages = "[]"});
  CHECK(store.find("a", "u").has_value());
  CHECK_FALSE(store.find("a", "v").has_value());
  CHECK_FALSE(store.remove("a", "v"));
  CHECK(store.remove("a", "u"));
  CHECK_FALSE(store.find("a", "u").has_value());
  CHECK(store.bytes() == 0);
}

TEST_CASE("a full store drops the responses that were used last the longest ago") {
  ResponseStore store(30'000);
  const std::string large(8'000, 'x');
  for (const char* id : {"a", "b", "c"}) store.add(id, {.user = "", .response = large, .messages = ""});
  CHECK(store.find("a", "").has_value());
  store.add("d", {.user = "", .response = large, .messages = ""});
  CHECK(store.find("a", "").has_value());
  CHECK_FALSE(store.find("b", "").has_value());
  CHECK(store.bytes() <= 30'000);
  store.add("e", {.user = "", .response = std::string(40'000, 'x'), .messages = ""});
  CHECK_FALSE(store.find("e", "").has_value());
  CHECK(store.find("a", "").has_value());
}

}  // namespace
}  // namespace ballast::serve
