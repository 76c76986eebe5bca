// Expected ids are those of tiktoken 0.14 for these vocabularies and expressions.
#include "text/readers/ranked_vocabulary.h"

#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "doctest/doctest.h"
#include "error_message.h"
#include "mutated_text.h"
#include "temporary_directory.h"
#include "text/readers/tokenizer_files.h"
#include "tiny_vocabularies.h"

namespace ballast::text {
namespace {

using nlohmann::json;
using test::Contains;
using test::error_message;
using Ids = std::vector<int>;

const std::vector<std::string> kTokens{"he", "ll",  "hell", "hello", " hello",   "ab", "ba",  "aba",
                                       "  ", "   ", "aa",   "aaa",   "\xC3\xA9", "12", "123", "The"};

json tekken() {
  const char* pattern =
      R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  return {{"config",
           {{"pattern", pattern}, {"default_vocab_size", 300}, {"default_num_special_tokens", 30}, {"version", "v3"}}},
          {"vocab", test::tekken_vocab(kTokens)}};
}

std::unique_ptr<Tokenizer> read_directory_with(const std::string& name, const std::string& content, const json& config,
                                               const json& model_config = json::object()) {
  const test::TemporaryDirectory directory;
  std::ofstream(directory.path() / name, std::ios::binary) << content;
  std::ofstream(directory.path() / "tokenizer_config.json") << config.dump();
  return read_tokenizer_directory(directory.path(), model_config);
}

std::string refusal_of_file(const std::string& name, const std::string& content) {
  return error_message([&] { read_directory_with(name, content, json::object(), {{"model_type", "llama"}}); });
}

TEST_CASE("a list of ranks gives the ids of tiktoken") {
  const json config = {{"added_tokens_decoder", {{"300", {{"content", "<|end|>"}, {"special", true}}}}}};
  for (const char* name : {"tokenizer.model", "tiktoken.model"}) {
    const auto tokenizer = read_directory_with(name, test::rank_list(kTokens), config, {{"model_type", "llama"}});
    CHECK(tokenizer->encode("hello hello") == Ids{259, 260});
    CHECK(tokenizer->encode("ababa abaab") == Ids{261, 263, 32, 263, 261});
    CHECK(tokenizer->encode("aaaaaaa") == Ids{266, 266, 267});
    CHECK(tokenizer->encode("The caf\xC3\xA9 12345") == Ids{271, 32, 99, 97, 102, 268, 32, 270, 52, 53});
    CHECK(tokenizer->encode("x<|end|>y") == Ids{120, 300, 121});
    CHECK(tokenizer->encode(" \xE4\xB8\x96\n\n") == Ids{32, 228, 184, 150, 10, 10});
    CHECK(tokenizer->is_byte_level());
    CHECK(tokenizer->vocab_size() == 301);
  }
}

TEST_CASE("Kimi's and Qwen 1's lists of ranks get the special tokens that their own code adds") {
  const auto kimi =
      read_directory_with("tiktoken.model", test::rank_list(kTokens), {{"tokenizer_class", "TikTokenTokenizer"}});
  CHECK(kimi->token_bytes(273) == "<|reserved_token_273|>");
  CHECK(kimi->vocab_size() == 272 + 256);
  const auto qwen =
      read_directory_with("qwen.tiktoken", test::rank_list(kTokens), {{"tokenizer_class", "QWenTokenizer"}});
  CHECK(qwen->encode("<|im_start|>hello<|extra_0|>") == Ids{273, 259, 275});
}

TEST_CASE("a tekken.json gives the ids of mistral_common") {
  const auto tokenizer = read_directory_with("tekken.json", tekken().dump(), json::object());
  CHECK(tokenizer->encode("hello hello") == Ids{289, 290});
  CHECK(tokenizer->encode("helloTHEhello 12") == Ids{289, 114, 102, 99, 289, 62, 79, 80});
  CHECK(tokenizer->encode("aaa   ") == Ids{297, 295});
  CHECK(tokenizer->encode("</s>[INST]") == Ids{2, 3});
  CHECK(tokenizer->token_bytes(29) == "<SPECIAL_29>");
  CHECK(tokenizer->leading_special_tokens() == Ids{1});
  CHECK(tokenizer->vocab_size() == 300);  // the file has more tokens than the model
}

TEST_CASE("of a tekken.json and a tokenizer.json with the same tokens the first is used") {
  const test::TemporaryDirectory directory;
  const auto read = [&] { return read_tokenizer_directory(directory.path()); };
  const auto write = [&](const char* name, const std::string& content) {
    std::ofstream(directory.path() / name, std::ios::binary) << content;
  };
  write("tekken.json", tekken().dump());
  json other = json::parse(read()->files()[0].content);
  other["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  write("tokenizer.json", other.dump());
  CHECK(read()->encode("12") == Ids{79, 80});  // tekken.json splits digits in this way
  CHECK(read()->warnings().empty());
  other["added_tokens"][29]["content"] = "<|im_start|>";
  write("tokenizer.json", other.dump());
  CHECK(read()->encode("12") == Ids{299});
  CHECK(read()->encode("<|im_start|>") == Ids{29});
  CHECK(read()->warnings().size() == 1);
  CHECK(read()->warnings()[0] ==
        Contains("tekken.json: has another token with id 29 than tokenizer.json: tokenizer.json is used"));
  write("tekken.json", "{");
  CHECK(read()->warnings()[0] == Contains("tekken.json: "));
  CHECK(read()->encode("<|im_start|>") == Ids{29});
}

TEST_CASE("a tekken.json may list its special tokens") {
  json listed = tekken();
  listed["special_tokens"] = json::array({{{"rank", 0}, {"token_str", "<unk>"}, {"is_control", true}},
                                          {{"rank", 1}, {"token_str", "<s>"}, {"is_control", true}},
                                          {{"rank", 2}, {"token_str", "[THINK]"}, {"is_control", true}}});
  const auto tokenizer = read_directory_with("tekken.json", listed.dump(), json::object());
  CHECK(tokenizer->encode("[THINK]") == Ids{2});
  CHECK(tokenizer->token_bytes(3) == "<SPECIAL_3>");
}

TEST_CASE("the files written for ranked vocabularies are read as the same tokenizer") {
  const auto original = read_directory_with("tekken.json", tekken().dump(), json::object());
  const auto files = original->files();
  const auto copy = read_directory_with(files[0].name, files[0].content, json::parse(files[1].content));
  for (const char* text : {"hello THE 12345", "ababa   aaaaa</s>"}) CHECK(copy->encode(text) == original->encode(text));
  CHECK(copy->leading_special_tokens() == original->leading_special_tokens());
}

TEST_CASE("broken lists of ranks are refused with file and line") {
  const std::string good = test::rank_list(kTokens);
  CHECK(refusal_of_file("tiktoken.model", good + "aGVs x\n") ==
        Contains("tiktoken.model: line 273: must be base64 and a rank"));
  CHECK(refusal_of_file("tiktoken.model", good + "aGV 300\n") == Contains("line 273: \"aGV\" is not base64"));
  CHECK(refusal_of_file("tiktoken.model", good + "aGVs 5\n") == Contains("line 273: rank 5 is given twice"));
  CHECK(refusal_of_file("tiktoken.model", good + "YWE= 300\n") == Contains("is there twice"));
  CHECK(refusal_of_file("tiktoken.model", good + "aGVs 99999\n") == Contains("the file is damaged"));
  CHECK(refusal_of_file("tiktoken.model", good.substr(7)) == Contains("has no token \"<0x00>\" of one byte"));
  CHECK(refusal_of_file("tokenizer.model", "AA 0\n") == Contains("is not a SentencePiece model"));
  CHECK(error_message([&] {
          read_directory_with("tiktoken.model", good, json::object(), {{"model_type", "martian"}});
        }) == Contains("not for \"martian\""));
}

TEST_CASE("broken tekken files are refused with file and path") {
  const auto refuse = [](const char* pointer, const json& value) {
    json changed = tekken();
    changed[json::json_pointer(pointer)] = value;
    return refusal_of_file("tekken.json", changed.dump());
  };
  CHECK(refuse("/config/default_num_special_tokens", 300) == Contains("config.default_num_special_tokens"));
  CHECK(refuse("/config/default_vocab_size", 0) == Contains("tekken.json: config.default_vocab_size"));
  CHECK(refuse("/config/pattern", "(") == Contains("does not compile"));
  CHECK(refuse("/vocab/3/rank", 4) == Contains("vocab[4]: rank 4 is given twice"));
  CHECK(refuse("/vocab/3/token_bytes", "?") == Contains("vocab[3]: \"?\" is not base64"));
  CHECK(refuse("/vocab/3/token_bytes", "AQ==") == Contains("has no token \"<0x03>\""));
  CHECK(refuse("/special_tokens", json::array({{{"rank", 30}, {"token_str", "x"}}})) ==
        Contains("special_tokens[0].rank"));
}

TEST_CASE("damaged ranked vocabularies are read or refused with one line") {
  std::mt19937 random(11);
  const std::string list = test::rank_list(kTokens);
  const std::string json_text = tekken().dump();
  int refused = 0;
  for (int i = 0; i < 200; ++i) {
    for (const auto& [name, content] : {std::pair("tiktoken.model", list), std::pair("tekken.json", json_text)}) {
      const std::string error = refusal_of_file(name, test::mutated(content, random));
      CHECK(error.find('\n') == std::string::npos);
      if (error == "no error") continue;
      CHECK(error == Contains(name));
      ++refused;
    }
  }
  CHECK(refused > 300);
}

}  // namespace
}  // namespace ballast::text
