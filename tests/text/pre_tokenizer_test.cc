#include "text/pipeline/pre_tokenizer.h"

#include <fstream>
#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "error_message.h"
#include "text/pipeline/pre_tokenizer_families.h"
#include "tokenizer_data.h"

namespace ballast::text {
namespace {

using nlohmann::json;
using test::Contains;
using test::error_message;
using Pieces = std::vector<std::string>;

const json kByteLevel = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};

Pieces pieces(const json& node, std::string_view text) {
  Pieces result;
  const PreTokenizer pre_tokenizer(files::JsonReader(node, "file: pre_tokenizer"));
  pre_tokenizer.split(text, true, [&](std::string_view piece) { result.emplace_back(piece); });
  return result;
}

json sequence(const json& first) {
  return {{"type", "Sequence"}, {"pretokenizers", json::array({first, kByteLevel})}};
}

json split(const char* behavior, bool invert = false) {
  return sequence({{"type", "Split"}, {"pattern", {{"String", "-"}}}, {"behavior", behavior}, {"invert", invert}});
}

// The cases are from the documentation of the tokenizers library.
TEST_CASE("Split handles matches according to its behavior") {
  const std::string text = "the-final--countdown";
  CHECK(pieces(split("Removed"), text) == Pieces{"the", "final", "countdown"});
  CHECK(pieces(split("Isolated"), text) == Pieces{"the", "-", "final", "-", "-", "countdown"});
  CHECK(pieces(split("MergedWithPrevious"), text) == Pieces{"the-", "final-", "-", "countdown"});
  CHECK(pieces(split("MergedWithNext"), text) == Pieces{"the", "-final", "-", "-countdown"});
  CHECK(pieces(split("Contiguous"), text) == Pieces{"the", "-", "final", "--", "countdown"});
}

TEST_CASE("Split with invert treats the gaps as matches") {
  CHECK(pieces(split("Removed", true), "a-b--") == Pieces{"-", "-", "-"});
  CHECK(pieces(split("Isolated", true), "a-b") == Pieces{"a", "-", "b"});
}

TEST_CASE("Split gives no empty pieces at the ends or for empty text") {
  CHECK(pieces(split("Isolated"), "").empty());
  CHECK(pieces(split("Removed"), "--").empty());
  CHECK(pieces(split("MergedWithPrevious"), "-a") == Pieces{"-", "a"});
  CHECK(pieces(split("MergedWithNext"), "a-") == Pieces{"a", "-"});
}

TEST_CASE("Split splits at empty matches") {
  const json node = sequence({{"type", "Split"}, {"pattern", {{"Regex", "(?=[A-Z])"}}}, {"behavior", "Isolated"}});
  CHECK(pieces(node, "oneTwoThree") == Pieces{"one", "Two", "Three"});
}

TEST_CASE("Digits are split individually or as numbers") {
  CHECK(pieces(sequence({{"type", "Digits"}, {"individual_digits", true}}), "a12\xC2\xBD") ==
        Pieces{"a", "1", "2", "\xC2\xBD"});
  CHECK(pieces(sequence({{"type", "Digits"}, {"individual_digits", false}}), "a12b") == Pieces{"a", "12", "b"});
}

TEST_CASE("ByteLevel splits with GPT-2's expression and adds a leading space if requested") {
  const json node = {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"use_regex", true}};
  CHECK(pieces(node, "it's  12") == Pieces{" it", "'s", " ", " 12"});
  CHECK(pieces(node, " x") == Pieces{" x"});
}

TEST_CASE("unknown types are refused by name") {
  CHECK(error_message([] { pieces({{"type", "CharDelimiterSplit"}}, ""); }) ==
        "file: pre_tokenizer: pre-tokenizer \"CharDelimiterSplit\" is not supported");
  CHECK(error_message([] { pieces({{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", "last"}}, ""); }) ==
        Contains("\"last\" is not supported"));
  CHECK(error_message([] { pieces(split("Sideways"), ""); }) == Contains("behavior \"Sideways\""));
  CHECK(error_message([] {
          pieces({{"type", "Sequence"}, {"pretokenizers", json::array({kByteLevel, kByteLevel})}}, "");
        }) == Contains("pre_tokenizer: pretokenizers[1]: a step after ByteLevel"));
}

TEST_CASE("sequences nested without end are refused") {
  json node = kByteLevel;
  for (int i = 0; i < 40; ++i) node = {{"type", "Sequence"}, {"pretokenizers", json::array({node})}};
  CHECK(error_message([&] { pieces(node, ""); }) == Contains("nested too deep"));
}

TEST_CASE("families of GGUF files split digits in their own ways") {
  const auto digits = [](std::string_view family) {
    return pieces(pre_tokenizer_family(family)->pre_tokenizer, "12345");
  };
  CHECK(digits("gpt-2") == Pieces{"12345"});
  CHECK(digits("smollm") == Pieces{"1", "2", "3", "4", "5"});
  CHECK(digits("llama-bpe") == Pieces{"123", "45"});
  CHECK(digits("qwen2") == Pieces{"1", "2", "3", "4", "5"});
  CHECK(digits("deepseek-v3") == Pieces{"123", "45"});
  CHECK_FALSE(pre_tokenizer_family("no such").has_value());
}

TEST_CASE("tokenizers get the names of families that split equally") {
  const auto name_of = [](const char* kind) {
    std::ifstream file(test::kTokenizerData / kind / "tokenizer.json");
    return pre_tokenizer_name(json::parse(file));
  };
  CHECK(name_of("gpt2") == "gpt-2");
  CHECK(name_of("smollm") == "smollm");
  CHECK(name_of("llama3") == "llama-bpe");
  CHECK(name_of("qwen2") == "qwen2");
  CHECK(name_of("deepseek_v3") == "deepseek-v3");
  CHECK_FALSE(name_of("prefix_space").has_value());
  CHECK_FALSE(name_of("removed").has_value());
  CHECK_FALSE(name_of("cl100k").has_value());  // has an expression of its own
  for (const char* name : {"gpt-2", "mpt", "smollm", "command-r", "llama-bpe", "dbrx", "qwen2", "qwen35", "gpt-4o",
                           "tekken", "deepseek-v3", "deepseek-llm", "bloom", "falcon"}) {
    CAPTURE(name);
    const PreTokenizerFamily family = *pre_tokenizer_family(name);
    CHECK(pre_tokenizer_name({{"normalizer", family.normalizer},
                              {"pre_tokenizer", family.pre_tokenizer},
                              {"model", {{"ignore_merges", family.ignore_merges}}}}) == name);
  }
}

}  // namespace
}  // namespace ballast::text
