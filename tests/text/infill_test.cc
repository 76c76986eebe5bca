#include "text/infill.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tiny_tokenizer.h"

namespace ballast::text {
namespace {

std::unique_ptr<Tokenizer> infill_tokenizer(const std::vector<std::string>& special) {
  nlohmann::json tokenizer_json = test::tiny_tokenizer_json();
  int id = 262;
  for (const std::string& text : special) {
    tokenizer_json["added_tokens"].push_back(
        {{"id", id++}, {"content", text}, {"special", true}, {"normalized", false}});
  }
  return test::make_tiny_tokenizer(tokenizer_json);
}

std::string infill_text(const Tokenizer& tokenizer, const std::vector<int>& ids) {
  std::string text;
  for (const int id : ids) text += tokenizer.token_bytes(id);
  return text;
}

TEST_CASE("a gap's prompt has the tokens of the model's family, in their order") {
  const auto qwen = infill_tokenizer({"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|fim_pad|>"});
  const auto prompt = make_infill_prompt(*qwen, {.before = "a(", .after = ")b", .begun = "x"});
  REQUIRE(prompt);
  CHECK(infill_text(*qwen, prompt->ids) == "<|fim_prefix|>a(<|fim_suffix|>)b<|fim_middle|>x");
  CHECK(prompt->ends == std::vector<int>{265});
  const auto codestral = infill_tokenizer({"[PREFIX]", "[SUFFIX]"});
  const auto other = make_infill_prompt(*codestral, {.before = "a(", .after = ")b", .begun = "x"});
  REQUIRE(other);
  CHECK(infill_text(*codestral, other->ids) == "[SUFFIX])b[PREFIX]a(x");
}

TEST_CASE("special tokens in a gap's texts are plain text") {
  const auto qwen = infill_tokenizer({"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"});
  const auto prompt = make_infill_prompt(*qwen, {.before = "<|fim_middle|>", .after = "<|end|>"});
  REQUIRE(prompt);
  CHECK(std::ranges::count(prompt->ids, 264) == 1);
  CHECK(std::ranges::count(prompt->ids, 261) == 0);
  CHECK(infill_text(*qwen, prompt->ids) == "<|fim_prefix|><|fim_middle|><|fim_suffix|><|end|><|fim_middle|>");
}

TEST_CASE("other files come first, each after the mark of a file if there is one") {
  const std::vector<InfillFile> files = {{.name = "a.h", .text = "A"}, {.name = "b.h", .text = "B"}};
  const InfillRequest gap = {.before = "x", .after = "y", .files = files};
  const auto marked = infill_tokenizer({"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|file_sep|>"});
  CHECK(infill_text(*marked, make_infill_prompt(*marked, gap)->ids) ==
        "<|file_sep|>a.h\nA\n<|file_sep|>b.h\nB\n<|file_sep|><|fim_prefix|>x<|fim_suffix|>y<|fim_middle|>");
  const auto plain = infill_tokenizer({"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"});
  CHECK(infill_text(*plain, make_infill_prompt(*plain, gap)->ids) ==
        "a.h\nA\nb.h\nB\n<|fim_prefix|>x<|fim_suffix|>y<|fim_middle|>");
}

TEST_CASE("a vocabulary without such tokens cannot fill gaps") {
  CHECK_FALSE(make_infill_prompt(*test::make_tiny_tokenizer(), {.before = "a", .after = "b"}));
}

}  // namespace
}  // namespace ballast::text
