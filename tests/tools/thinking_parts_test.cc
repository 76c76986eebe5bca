#include "tools/commands/thinking_parts.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ballast::tools {
namespace {

using Parts = std::vector<TextPart>;

/// In pieces of `size` bytes, neighbours of a kind put together again.
Parts split(std::string_view text, std::size_t size, bool thinking = false) {
  ThinkingParts parts(thinking);
  Parts all;
  const auto add = [&](const Parts& some) {
    for (const TextPart& part : some) {
      if (all.empty() || all.back().thinking != part.thinking) {
        all.push_back(part);
      } else {
        all.back().text += part.text;
      }
    }
  };
  for (std::size_t begin = 0; begin < text.size(); begin += size) add(parts.split(text.substr(begin, size)));
  add(parts.finish());
  return all;
}

TEST_CASE("thinking is told from the answer, however the text is cut") {
  const std::string text = "<think>\nIs 2 < 3? </thin> yes.\n</think>\n\nYes, <b>it</b> is <";
  const Parts wanted = {{"Is 2 < 3? </thin> yes.\n", true}, {"Yes, <b>it</b> is <", false}};
  for (std::size_t size = 1; size <= text.size(); ++size) CHECK(split(text, size) == wanted);
}

TEST_CASE("a prompt may have opened the thinking") {
  CHECK(opens_thinking("<|im_start|>assistant\n<think>\n"));
  CHECK(opens_thinking("<think>"));
  CHECK_FALSE(opens_thinking("<think>\n\n</think>\n\n"));
  CHECK_FALSE(opens_thinking(" \n"));
  CHECK_FALSE(opens_thinking(""));
  for (std::size_t size = 1; size < 12; ++size) {
    CHECK(split("hm</think>\n\nyes", size, true) == Parts{{"hm", true}, {"yes", false}});
  }
}

TEST_CASE("a text without tags, and one that ends while it thinks") {
  CHECK(split("plain </think> text", 3) == Parts{{"plain </think> text", false}});
  CHECK(split("<think> and on", 4) == Parts{{"and on", true}});
  CHECK(split("<think></think>", 2).empty());
  CHECK(split("", 1).empty());
}

}  // namespace
}  // namespace ballast::tools
