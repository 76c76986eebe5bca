#include "serve/scheduler/prompt_pace.h"

#include <doctest/doctest.h>

namespace ballast::serve {
namespace {

TEST_CASE("a prompt is read at full speed if no other request generates") {
  PromptPace pace(0.15, 512);
  CHECK(pace.tokens(false) == 512);
}

TEST_CASE("while others generate, prompts get the remaining time between two tokens") {
  PromptPace pace(0.150, 512);
  for (int i = 0; i < 50; ++i) pace.measure(0, true, 0.050);
  for (int i = 0; i < 50; ++i) pace.measure(100, true, 0.100);  // half a millisecond a token
  CHECK(pace.tokens(true) == doctest::Approx(200).epsilon(0.05));
  CHECK(pace.tokens(false) == 512);
}

TEST_CASE("a prompt makes progress even if the tokens alone exceed the target") {
  PromptPace pace(0.010, 512);
  for (int i = 0; i < 50; ++i) pace.measure(0, true, 0.200);
  for (int i = 0; i < 50; ++i) pace.measure(16, true, 0.400);
  CHECK(pace.tokens(true) == 16);
}

TEST_CASE("a fast machine reads whole pieces") {
  PromptPace pace(0.150, 512);
  for (int i = 0; i < 50; ++i) pace.measure(512, false, 0.01);
  CHECK(pace.tokens(true) == 512);
}

}  // namespace
}  // namespace ballast::serve
