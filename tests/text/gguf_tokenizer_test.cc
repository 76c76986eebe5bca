#include "text/readers/gguf_tokenizer.h"

#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "doctest/doctest.h"
#include "error_message.h"
#include "temporary_directory.h"
#include "text/readers/gguf_end_tokens.h"
#include "text/readers/tokenizer_files.h"
#include "text/tokenizer.h"
#include "tiny_tokenizer.h"
#include "tiny_vocabularies.h"
#include "tokenizer_data.h"

namespace ballast::text {
namespace {

using nlohmann::json;
using test::Contains;
using test::error_message;

// A GGUF with metadata only.
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

// Returns the tiny tokenizer, with a padding token after it.
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

std::string refusal_of(json metadata, const char* key, json value) {
  metadata[key] = std::move(value);
  return error_message([&] { load_tokenizer(MetadataOnly(metadata)); });
}

std::string refusal(const char* key, json value) {
  return refusal_of(tiny_metadata(), key, std::move(value));
}

const std::string kMark = "\xE2\x96\x81";

// Returns the metadata of a tokenizer.json with WordPiece, as llama.cpp's converter writes its vocabulary.
json word_piece_metadata(const json& tokenizer) {
  const json& vocab = tokenizer["model"]["vocab"];
  std::vector<std::string> tokens(vocab.size());
  std::vector<int> types(vocab.size(), 1);
  for (const json& added : tokenizer["added_tokens"]) types[added["id"].get<std::size_t>()] = 3;
  for (const auto& [text, id] : vocab.items()) {
    const auto at = id.get<std::size_t>();
    tokens[at] = types[at] == 3 ? text : text.starts_with("##") ? text.substr(2) : kMark + text;
  }
  return {{"tokenizer.ggml.model", "bert"},
          {"tokenizer.ggml.pre", "jina-v2-en"},
          {"tokenizer.ggml.tokens", tokens},
          {"tokenizer.ggml.token_type", types},
          {"tokenizer.ggml.bos_token_id", vocab["[CLS]"]},
          {"tokenizer.ggml.eos_token_id", vocab["[SEP]"]},
          {"tokenizer.ggml.seperator_token_id", vocab["[SEP]"]},
          {"tokenizer.ggml.unknown_token_id", vocab["[UNK]"]},
          {"tokenizer.ggml.padding_token_id", vocab["[PAD]"]},
          {"tokenizer.ggml.mask_token_id", vocab["[MASK]"]},
          {"tokenizer.ggml.add_bos_token", true},
          {"tokenizer.ggml.add_eos_token", true},
          {"tokenizer.ggml.add_sep_token", false}};
}

json golden_word_piece(const char* kind) {
  return word_piece_metadata(json::parse(test::read_file(test::kTokenizerData / kind / "tokenizer.json")));
}

// Returns the metadata of SentencePiece's unigram model, with T5's first tokens.
json unigram_metadata() {
  return {{"tokenizer.ggml.model", "t5"},
          {"tokenizer.ggml.tokens",
           {"<pad>", "</s>", "<unk>", kMark, kMark + "a", "b", "ab", "fi", kMark + "ab", "<new>", "[PAD10]"}},
          {"tokenizer.ggml.token_type", {3, 3, 2, 1, 1, 1, 1, 1, 1, 4, 5}},
          {"tokenizer.ggml.scores", {0, 0, 0, -2.0, -3.0, -4.0, -6.0, -4.5, -9.0, -1000.0, -10000.0}},
          {"tokenizer.ggml.add_space_prefix", true},
          {"tokenizer.ggml.remove_extra_whitespaces", true}};
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

TEST_CASE("the files written for a GGUF's tokenizer are read as the same tokenizer") {
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

TEST_CASE("every pre-tokenizer that llama.cpp writes splits texts, and byte-level ones restore them") {
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
  metadata["tokenizer.ggml.tokens"] = {"<unk>", "a", "b", kMark, "ab", kMark + "ab", "<0xC3>", "<0xA9>"};
  metadata["tokenizer.ggml.token_type"] = {2, 1, 1, 1, 1, 1, 6, 6};
  metadata["tokenizer.ggml.merges"] = {"a b", kMark + " ab"};
  for (const char* key : {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id"}) metadata[key] = nullptr;
  metadata["tokenizer.ggml.unknown_token_id"] = 0;
  const auto tokenizer = load_tokenizer(MetadataOnly(metadata));
  CHECK(tokenizer->encode("ab ab  b\xC3\xA9") == std::vector<int>{4, 5, 3, 3, 2, 6, 7});
  CHECK(decode(*tokenizer, std::vector<int>{4, 5, 6, 7}) == "ab ab\xC3\xA9");
}

TEST_CASE("a GGUF's WordPiece gives the ids of the original tokenizer") {
  const std::string texts = test::read_file(test::kTokenizerData / "texts.bin");
  for (const char* kind : {"bert_uncased", "bert_cased"}) {
    CAPTURE(kind);
    const auto original = read_tokenizer_directory(test::kTokenizerData / kind);
    const auto tokenizer = load_tokenizer(MetadataOnly(golden_word_piece(kind)));
    const std::vector<int> ids = original->encode(texts);
    CHECK(tokenizer->encode(texts) == ids);
    CHECK(decode(*tokenizer, ids) == decode(*original, ids));
    CHECK(tokenizer->leading_special_tokens() == original->leading_special_tokens());
    CHECK(tokenizer->suffix() == original->suffix());
    CHECK(tokenizer->bos() == original->bos());
    CHECK(tokenizer->is_special(4));
    const auto copy = test::make_tiny_tokenizer(json::parse(tokenizer->files()[0].content),
                                                json::parse(tokenizer->files()[1].content));
    CHECK(copy->encode(texts) == ids);
    CHECK(copy->suffix() == original->suffix());
  }
}

TEST_CASE("a GGUF's WordPiece by older converters, with other token names, gives the same ids") {
  json metadata = golden_word_piece("bert_uncased");
  const auto newer = load_tokenizer(MetadataOnly(metadata));
  std::vector<std::string> tokens = metadata["tokenizer.ggml.tokens"];
  REQUIRE(tokens[7].starts_with(kMark));
  tokens[7] = "[unused1]";  // was not changed by the converter
  metadata["tokenizer.ggml.tokens"] = tokens;
  for (const char* key : {"bos_token_id", "eos_token_id", "unknown_token_id", "add_bos_token", "add_eos_token"}) {
    metadata.erase("tokenizer.ggml." + std::string(key));
  }
  metadata.erase("tokenizer.ggml.add_sep_token");
  metadata["tokenizer.ggml.cls_token_id"] = 2;
  const auto older = load_tokenizer(MetadataOnly(metadata));
  CHECK(older->token_bytes(7) == " [unused1]");
  CHECK(older->encode("Hello [MASK] world") == newer->encode("Hello [MASK] world"));
  CHECK(older->leading_special_tokens() == std::vector<int>{2});
  CHECK(older->suffix() == std::vector<int>{3});

  metadata["tokenizer.ggml.add_bos_token"] = false;
  metadata["tokenizer.ggml.add_sep_token"] = false;
  const auto bare = load_tokenizer(MetadataOnly(metadata));
  CHECK(bare->leading_special_tokens().empty());
  CHECK(bare->suffix().empty());
}

TEST_CASE("a GGUF's WordPiece lower-cases according to the file, by default if the vocabulary has no capitals") {
  const auto ids = [](json metadata, const char* key, bool value) {
    if (key != nullptr) metadata["tokenizer.ggml.normalizer." + std::string(key)] = value;
    return load_tokenizer(MetadataOnly(std::move(metadata)))->encode("CAF\xC3\x89 Paris");
  };
  const json uncased = golden_word_piece("bert_uncased");
  const json cased = golden_word_piece("bert_cased");
  CHECK(ids(uncased, "lowercase", true) == ids(uncased, nullptr, false));
  CHECK(ids(uncased, "lowercase", false) != ids(uncased, nullptr, false));
  CHECK(ids(uncased, "strip_accents", false) != ids(uncased, nullptr, false));
  CHECK(ids(cased, "lowercase", false) == ids(cased, nullptr, false));
  CHECK(ids(cased, "lowercase", true) != ids(cased, nullptr, false));
}

TEST_CASE("a GGUF's unigram model chooses the most likely pieces after its rules for characters and spaces") {
  json metadata = unigram_metadata();
  const auto plain = load_tokenizer(MetadataOnly(metadata));
  CHECK(plain->encode("ab") == std::vector<int>{4, 5});  // -3 and -4 are more than -9, and than -2 and -6
  CHECK(plain->encode("  ab   b ") == std::vector<int>{4, 5, 3, 5});
  CHECK(plain->encode("xx<new>ab</s>") == std::vector<int>{3, 2, 9, 4, 5, 1});
  CHECK(plain->encode("[PAD10]").size() > 1);
  CHECK(plain->vocab_size() == 10);
  CHECK(plain->suffix() == std::vector<int>{1});
  CHECK(plain->leading_special_tokens().empty());
  CHECK(plain->encode("").empty());
  CHECK(decode(*plain, plain->encode("ab b")) == "ab b");
  const auto copy =
      test::make_tiny_tokenizer(json::parse(plain->files()[0].content), json::parse(plain->files()[1].content));
  CHECK(copy->encode(" ab  fi ") == plain->encode(" ab  fi "));
  CHECK(copy->suffix() == plain->suffix());

  metadata["tokenizer.ggml.add_space_prefix"] = false;
  CHECK(load_tokenizer(MetadataOnly(metadata))->encode(" ab  b") == std::vector<int>{6, 3, 5});
  metadata["tokenizer.ggml.remove_extra_whitespaces"] = false;
  CHECK(load_tokenizer(MetadataOnly(metadata))->encode(" ab  b ") == std::vector<int>{4, 5, 3, 3, 5, 3});
  metadata["tokenizer.ggml.add_space_prefix"] = true;
  CHECK(load_tokenizer(MetadataOnly(metadata))->encode(" b") == std::vector<int>{3, 3, 5});

  std::vector<int> map;  // as I8
  for (const char c : test::charsmap({{"\xEF\xAC\x81", "fi"}, {"\t", " "}})) map.push_back(static_cast<signed char>(c));
  metadata = unigram_metadata();
  metadata["tokenizer.ggml.precompiled_charsmap"] = map;
  CHECK(load_tokenizer(MetadataOnly(metadata))->encode("ab\t\xEF\xAC\x81\t") == std::vector<int>{4, 5, 3, 7});
}

TEST_CASE("a GGUF's unigram model uses byte tokens, and tokens across words, if it has them") {
  json metadata = unigram_metadata();
  std::vector<std::string> tokens = metadata["tokenizer.ggml.tokens"];
  tokens[7] = "b" + kMark + "b";
  tokens[9] = "<0x78>";
  metadata["tokenizer.ggml.tokens"] = tokens;
  metadata["tokenizer.ggml.token_type"][9] = 6;
  metadata["tokenizer.ggml.add_bos_token"] = true;
  metadata["tokenizer.ggml.add_eos_token"] = false;
  metadata["tokenizer.ggml.bos_token_id"] = 0;
  const auto tokenizer = load_tokenizer(MetadataOnly(metadata));
  CHECK(tokenizer->encode("x") == std::vector<int>{3, 9});
  CHECK(decode(*tokenizer, std::vector<int>{3, 9}) == "x");
  CHECK(tokenizer->encode("b b") == std::vector<int>{3, 7});
  CHECK(tokenizer->leading_special_tokens() == std::vector<int>{0});
  CHECK(tokenizer->suffix().empty());
}

TEST_CASE("metadata that cannot be a WordPiece or a unigram model are refused by key") {
  const json pieces = golden_word_piece("bert_uncased");
  CHECK(refusal_of(pieces, "tokenizer.ggml.unknown_token_id", 100000) ==
        Contains("m.gguf: tokenizer.ggml.unknown_token_id: is 100000, there are"));
  CHECK(refusal_of(pieces, "tokenizer.ggml.add_bos_token", 1) == Contains("tokenizer.ggml.add_bos_token: must be"));
  CHECK(refusal_of(pieces, "tokenizer.ggml.normalizer.lowercase", "yes") == Contains("normalizer.lowercase: must be"));
  CHECK(refusal_of(pieces, "tokenizer.ggml.token_type", {3}) == Contains("has 1 elements for"));
  json few = unigram_metadata();
  few["tokenizer.ggml.model"] = "bert";
  CHECK(refusal_of(few, "tokenizer.ggml.pre", "x") ==
        "m.gguf: tokenizer.ggml.unknown_token_id: is missing, and no token has BERT's name for it");

  const json unigram = unigram_metadata();
  CHECK(refusal_of(unigram, "tokenizer.ggml.scores", nullptr) == Contains("m.gguf: tokenizer.ggml.scores: "));
  CHECK(refusal_of(unigram, "tokenizer.ggml.scores", {1.0}) == Contains("has 1 elements for 11 tokens"));
  CHECK(refusal_of(unigram, "tokenizer.ggml.token_type", nullptr) == Contains("no token is of type 2 (unknown)"));
  CHECK(refusal_of(unigram, "tokenizer.ggml.precompiled_charsmap", {1, 2, 300}) ==
        Contains("tokenizer.ggml.precompiled_charsmap[2]: must be between"));
  CHECK(refusal_of(unigram, "tokenizer.ggml.precompiled_charsmap", {1, 2, 3}) == Contains("a map of 3 bytes"));
  CHECK(refusal_of(unigram, "tokenizer.ggml.treat_whitespace_as_suffix", true) == Contains("true is not supported"));
  CHECK(refusal_of(unigram, "tokenizer.ggml.escape_whitespaces", false) == Contains("false is not supported"));
}

TEST_CASE("of tokens with the same text the first one is used, a special one before others, and all are decoded") {
  json metadata = tiny_metadata();
  metadata["tokenizer.ggml.tokens"][262] = metadata["tokenizer.ggml.tokens"][70];
  metadata["tokenizer.ggml.token_type"][262] = 1;
  const auto tokenizer = load_tokenizer(MetadataOnly(metadata));
  CHECK(tokenizer->encode(tokenizer->token_bytes(70)) == std::vector<int>{70});
  CHECK(tokenizer->token_bytes(262) == tokenizer->token_bytes(70));
  CHECK(tokenizer->warnings().size() == 1);
  CHECK(tokenizer->warnings()[0] == Contains("is there twice, with ids 70 and 262: a text becomes the first"));
  metadata["tokenizer.ggml.tokens"][262] = "<|end|>";
  metadata["tokenizer.ggml.token_type"][261] = 1;
  metadata["tokenizer.ggml.token_type"][262] = 3;
  const auto special = load_tokenizer(MetadataOnly(metadata));
  CHECK(special->encode("<|end|>") == std::vector<int>{262});
  CHECK(special->is_special(262));
  CHECK_FALSE(special->is_special(261));
  CHECK(special->token_bytes(261) == "<|end|>");

  json unigram = unigram_metadata();
  unigram["tokenizer.ggml.tokens"][10] = "ab";
  unigram["tokenizer.ggml.token_type"][10] = 1;
  const auto pieces = load_tokenizer(MetadataOnly(unigram));
  CHECK(pieces->token_bytes(10) == pieces->token_bytes(6));
  CHECK(pieces->warnings().size() == 1);
}

TEST_CASE("the tokens that end a text are those with a key or a known name, unless they are plain text") {
  json metadata = tiny_metadata();
  using Ids = std::vector<int>;
  CHECK(gguf_end_tokens(MetadataOnly(metadata)) == Ids{261});
  metadata["tokenizer.ggml.eos_token_id"] = 7;
  CHECK(gguf_end_tokens(MetadataOnly(metadata)) == Ids{7, 261});
  metadata["tokenizer.ggml.eot_token_id"] = 9;
  metadata["tokenizer.ggml.eom_token_id"] = 8;
  CHECK(gguf_end_tokens(MetadataOnly(metadata)) == Ids{7, 9, 8, 261});
  metadata["tokenizer.ggml.token_type"][261] = 1;
  CHECK(gguf_end_tokens(MetadataOnly(metadata)) == Ids{7, 9, 8});
  metadata["tokenizer.ggml.token_type"][261] = 4;
  metadata["tokenizer.ggml.token_type"][262] = 3;
  metadata["tokenizer.ggml.tokens"][262] = "<|return|>";
  CHECK(gguf_end_tokens(MetadataOnly(metadata)) == Ids{7, 9, 8, 262});
  metadata["tokenizer.ggml.eot_token_id"] = 999;
  CHECK(error_message([&] { gguf_end_tokens(MetadataOnly(metadata)); }) == Contains("eot_token_id: is 999"));
  CHECK(gguf_end_tokens(MetadataOnly(json::object())).empty());
}

TEST_CASE("a GGUF's template for tools is read") {
  json metadata = tiny_metadata();
  metadata["tokenizer.chat_template.tool_use"] = "tools";
  const auto tokenizer = load_tokenizer(MetadataOnly(metadata));
  CHECK(tokenizer->chat_template() == "template");
  CHECK(tokenizer->tool_chat_template() == "tools");
}

TEST_CASE("a GGUF without a tokenizer has no tokenizer") {
  CHECK(load_tokenizer(MetadataOnly(json::object())) == nullptr);
}

TEST_CASE("metadata that cannot be a byte-level tokenizer are refused by key") {
  CHECK(refusal("tokenizer.ggml.model", "rwkv") == Contains("m.gguf: tokenizer.ggml.model: tokenizer \"rwkv\""));
  CHECK(refusal("tokenizer.ggml.pre", "martian") ==
        "m.gguf: tokenizer.ggml.pre: pre-tokenizer \"martian\" is not supported");
  CHECK(refusal("tokenizer.ggml.token_type", {1, 1}) == Contains("has 2 elements for 263 tokens"));
  CHECK(refusal("tokenizer.ggml.token_type", std::vector<int>(264, 1)) == Contains("has 264 elements, at most 263"));
  CHECK(refusal("tokenizer.ggml.token_type", "x") == Contains("m.gguf: tokenizer.ggml.token_type"));
  CHECK(refusal("tokenizer.ggml.eos_token_id", 5000) == Contains("m.gguf: tokenizer.ggml.eos_token_id: is 5000"));
  CHECK(refusal("tokenizer.ggml.tokens", nullptr) == Contains("m.gguf: tokenizer.ggml.tokens"));
  CHECK(refusal("tokenizer.ggml.merges", {"q z"}) == Contains("merges[0]: "));
  json tokens = tiny_metadata()["tokenizer.ggml.tokens"];
  tokens[5] = "\xFF";
  CHECK(refusal("tokenizer.ggml.tokens", tokens) == Contains("tokenizer.ggml.tokens[5]: is not UTF-8"));
  tokens[5] = 7;
  CHECK(refusal("tokenizer.ggml.tokens", tokens) == Contains("tokenizer.ggml.tokens[5]: must be a string"));
}

}  // namespace
}  // namespace ballast::text
