#include "text/readers/gguf_tokenizer.h"

#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "doctest/doctest.h"
#include "error_message.h"
#include "text/tokenizer.h"
#include "tiny_tokenizer.h"

namespace ballast::text {
namespace {

using nlohmann::json;
using test::Contains;
using test::error_message;

// A GGUF of nothing but metadata.
class MetadataOnly : public files::GgufFile {
 public:
  explicit MetadataOnly(json metadata) : files::GgufFile("m.gguf"), metadata_(std::move(metadata)) {}
  Kind kind() const override { return Kind::kGguf; }
  const json& config() const override { return metadata_; }
  const std::vector<std::string>& names() const override { return names_; }
  bool contains(std::string_view) const override { return false; }
  TensorView tensor(std::string_view) const override { return {}; }
  void release(std::string_view) const override {}
  std::uint64_t file_bytes() const override { return 0; }
  json metadata(std::string_view key) const override { return metadata_.value(std::string(key), json()); }

 private:
  json metadata_;
  std::vector<std::string> names_;
};

// The tiny tokenizer, with a padding token after it.
json tiny_metadata() {
  const json model = test::tiny_tokenizer_json()["model"];
  std::vector<std::string> tokens(263);
  for (const auto& [text, id] : model["vocab"].items()) tokens[id.get<std::size_t>()] = text;
  tokens[261] = "<|end|>";
  tokens[262] = "[PAD262]";
  std::vector<int> types(263, 1);
  types[261] = 3;
  types[262] = 5;
  return {{"tokenizer.ggml.model", "gpt2"},           {"tokenizer.ggml.pre", "gpt-2"},
          {"tokenizer.ggml.tokens", tokens},          {"tokenizer.ggml.token_type", types},
          {"tokenizer.ggml.bos_token_id", 261},       {"tokenizer.ggml.eos_token_id", 261},
          {"tokenizer.ggml.merges", model["merges"]}, {"tokenizer.chat_template", "template"}};
}

std::string refusal(const char* key, json value) {
  json metadata = tiny_metadata();
  metadata[key] = std::move(value);
  return error_message([&] { load_tokenizer(MetadataOnly(metadata)); });
}

TEST_CASE("a GGUF's metadata give the same tokenizer as a tokenizer.json") {
  const auto tokenizer = load_tokenizer(MetadataOnly(tiny_metadata()));
  REQUIRE(tokenizer != nullptr);
  const auto expected = test::make_tiny_tokenizer();
  for (const char* text : {"hello hello<|end|> 12 \xC3\xA9", "", "[PAD262]"}) {
    CHECK(tokenizer->encode(text) == expected->encode(text));
  }
  CHECK(tokenizer->vocab_size() == 262);
  CHECK(tokenizer->is_special(261));
  CHECK(tokenizer->bos() == 261);
  CHECK(tokenizer->eos() == 261);
  CHECK_FALSE(tokenizer->adds_bos());
  CHECK(tokenizer->chat_template() == "template");
}

TEST_CASE("what is written for a GGUF's tokenizer reads as the same tokenizer") {
  json metadata = tiny_metadata();
  metadata["tokenizer.ggml.pre"] = "llama-bpe";
  const auto original = load_tokenizer(MetadataOnly(metadata));
  const auto copy =
      test::make_tiny_tokenizer(json::parse(original->files()[0].content), json::parse(original->files()[1].content));
  CHECK(original->adds_bos());
  CHECK(copy->adds_bos());
  CHECK(copy->bos() == original->bos());
  CHECK(copy->eos() == original->eos());
  CHECK(copy->chat_template() == "template");
  CHECK(copy->encode("hello 12345<|end|>") == original->encode("hello 12345<|end|>"));
}

TEST_CASE("every pre-tokenizer that llama.cpp writes cuts texts, and gives them back where it is made of bytes") {
  std::istringstream names(
      "a.x-4.0 afmoe bailingmoe bailingmoe2 bloom chameleon chatglm-bpe codeshell cohere2moe command-r dbrx "
      "deepseek-coder deepseek-llm deepseek-r1-qwen deepseek-v3 default exaone exaone-moe exaone4 f2llmv2 "
      "falcon falcon-h1 falcon3 gemma4 gigachat glm4 glm5 gpt-2 gpt-4o gpt3-finnish granite-docling "
      "granite-embed-multi-311m granite-embed-multi-97m grok-2 hunyuan hunyuan-dense hy_v4 jais jais-2 jina-de "
      "jina-es jina-v1-en jina-v2-code jina-v2-de jina-v2-es jina-v5-nano joyai-llm kanana2 kimi-k2 kormo "
      "laguna lfm2 llada-moe llama-bpe llama-v3 llama3 llama4 megrez mellum mellum2 midm-2.0 minerva-7b "
      "minicpm5 minimax-m2 modern-bert mpt olmo phi-2 pixtral poro-chat qwen2 qwen35 refact roberta-bpe "
      "sarvam-moe seed-coder smaug-bpe smollm solar-open spark2_5 stablelm2 starcoder superbpe talkie tekken "
      "tiny_aya trillion ufakzeka viking youtu");
  const std::string text =
      "Hello'S 12345 caf\xC3\xA9\n\n  x = {1.5}; \xE4\xB8\x96\xE7\x95\x8C\xE3\x81\x82 \xE0\xB9\x91!";
  for (std::string name; names >> name;) {
    CAPTURE(name);
    json metadata = tiny_metadata();
    metadata["tokenizer.ggml.pre"] = name;
    const auto tokenizer = load_tokenizer(MetadataOnly(metadata));
    if (tokenizer->is_byte_level()) CHECK(decode(*tokenizer, tokenizer->encode(text)) == text);
  }
}

TEST_CASE("a GGUF's gemma4 tokenizer merges characters by its list, spaces marked, with byte tokens") {
  json metadata = tiny_metadata();
  metadata["tokenizer.ggml.model"] = "gemma4";
  metadata["tokenizer.ggml.pre"] = nullptr;
  const std::string mark = "\xE2\x96\x81";
  metadata["tokenizer.ggml.tokens"] = {"<unk>", "a", "b", mark, "ab", mark + "ab", "<0xC3>", "<0xA9>"};
  metadata["tokenizer.ggml.token_type"] = {2, 1, 1, 1, 1, 1, 6, 6};
  metadata["tokenizer.ggml.merges"] = {"a b", mark + " ab"};
  for (const char* key : {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id"}) metadata[key] = nullptr;
  metadata["tokenizer.ggml.unknown_token_id"] = 0;
  const auto tokenizer = load_tokenizer(MetadataOnly(metadata));
  CHECK(tokenizer->encode("ab ab  b\xC3\xA9") == std::vector<int>{4, 5, 3, 3, 2, 6, 7});
  CHECK(decode(*tokenizer, std::vector<int>{4, 5, 6, 7}) == "ab ab\xC3\xA9");
}

TEST_CASE("a GGUF without a tokenizer gives none") {
  CHECK(load_tokenizer(MetadataOnly(json::object())) == nullptr);
}

TEST_CASE("metadata that cannot be a byte-level tokenizer are refused by key") {
  CHECK(refusal("tokenizer.ggml.model", "rwkv") == Contains("m.gguf: tokenizer.ggml.model: tokenizer \"rwkv\""));
  CHECK(refusal("tokenizer.ggml.pre", "martian") ==
        "m.gguf: tokenizer.ggml.pre: pre-tokenizer \"martian\" is not supported");
  CHECK(refusal("tokenizer.ggml.token_type", {1, 1}) == Contains("has 2 elements for 263 tokens"));
  CHECK(refusal("tokenizer.ggml.token_type", "x") == Contains("m.gguf: tokenizer.ggml.token_type"));
  CHECK(refusal("tokenizer.ggml.eos_token_id", 5000) == Contains("m.gguf: tokenizer.ggml.eos_token_id: is 5000"));
  CHECK(refusal("tokenizer.ggml.tokens", nullptr) == Contains("m.gguf: tokenizer.ggml.tokens"));
  CHECK(refusal("tokenizer.ggml.merges", {"q z"}) == Contains("merges[0]: "));
  json tokens = tiny_metadata()["tokenizer.ggml.tokens"];
  tokens[5] = tokens[6];
  CHECK(refusal("tokenizer.ggml.tokens", tokens) == Contains("is there twice"));
  tokens[5] = "\xFF";
  CHECK(refusal("tokenizer.ggml.tokens", tokens) == Contains("tokenizer.ggml.tokens[5]: is not UTF-8"));
  tokens[5] = 7;
  CHECK(refusal("tokenizer.ggml.tokens", tokens) == Contains("tokenizer.ggml.tokens[5]: must be a string"));
}

}  // namespace
}  // namespace ballast::text
