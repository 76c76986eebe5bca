// Tokenizers other than byte-level BPE: tokens around a text, decoding, and damaged files. golden_test.cc compares the
// ids of texts.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ballast/error.h"
#include "doctest/doctest.h"
#include "error_message.h"
#include "files/gguf/gguf.h"
#include "temporary_directory.h"
#include "text/readers/tokenizer_files.h"
#include "text/tokenizer.h"
#include "text/tokenizer_check.h"
#include "tiny_tokenizer.h"
#include "tokenizer_data.h"

namespace ballast::text {
namespace {

using nlohmann::json;
using test::Contains;
using test::error_message;
using Ids = std::vector<int>;

std::unique_ptr<Tokenizer> open(const char* kind) {
  return read_tokenizer_directory(test::kTokenizerData / kind);
}

std::string refusal(const std::filesystem::path& directory) {
  return error_message([&] { read_tokenizer_directory(directory); });
}

TEST_CASE("decoding restores text if the vocabulary covers all bytes") {
  for (const char* kind : {"llama_normalizer", "llama_first", "llama_always", "unigram_bytes", "sentencepiece_bpe"}) {
    CAPTURE(kind);
    const auto tokenizer = open(kind);
    for (const char* text : {"Hello world", "caf\xC3\xA9 \xF0\x9F\x98\x80 x", "\xE4\xBD\xA0\xE5\xA5\xBD", "12 a\nb"}) {
      CHECK(decode(*tokenizer, tokenizer->encode(text)) == text);
    }
  }
}

TEST_CASE("a continuation keeps the space before its first word, and a separate text does not") {
  const auto tokenizer = open("llama_first");
  const Ids ids = tokenizer->encode("Hello");
  StreamDecoder continuation(*tokenizer, StreamDecoder::Begin::kWithinText);
  std::string text;
  for (const int id : ids) text += continuation.push(id);
  CHECK(text + continuation.finish() == " Hello");
  CHECK(decode(*tokenizer, ids) == "Hello");
}

TEST_CASE("special tokens are put around a text as by the original") {
  const auto bert = open("bert_uncased");
  CHECK(bert->leading_special_tokens() == Ids{2});
  CHECK(bert->suffix() == Ids{3});
  CHECK(open("bert_vocab_txt")->leading_special_tokens() == Ids{2});
  CHECK(open("unigram_bytes")->suffix() == Ids{2});
  for (const char* kind : {"llama_normalizer", "sentencepiece_bpe"}) {
    CHECK(open(kind)->leading_special_tokens() == Ids{1});
    CHECK(open(kind)->bos() == 1);
    CHECK(open(kind)->adds_bos());
    CHECK(open(kind)->suffix().empty());
  }
  CHECK(open("gpt2_files")->leading_special_tokens().empty());
}

TEST_CASE("a post-processor may be written for BERT or RoBERTa by name, and nested") {
  json tokenizer = test::tiny_tokenizer_json();
  const json named = {{"type", "BertProcessing"}, {"sep", {"he", 256}}, {"cls", {"ll", 257}}};
  tokenizer["post_processor"] = named;
  CHECK(test::make_tiny_tokenizer(tokenizer)->leading_special_tokens() == Ids{257});
  CHECK(test::make_tiny_tokenizer(tokenizer)->suffix() == Ids{256});
  tokenizer["post_processor"] = {{"type", "Sequence"}, {"processors", {{{"type", "ByteLevel"}}, named}}};
  CHECK(test::make_tiny_tokenizer(tokenizer)->leading_special_tokens() == Ids{257});
  const json config = {{"eos_token", "<|end|>"}, {"add_eos_token", true}, {"add_bos_token", false}};
  CHECK(test::make_tiny_tokenizer(tokenizer, config)->leading_special_tokens().empty());
  CHECK(test::make_tiny_tokenizer(tokenizer, config)->suffix() == Ids{256});
  tokenizer["post_processor"] = nullptr;
  CHECK(test::make_tiny_tokenizer(tokenizer, config)->suffix() == Ids{261});
}

TEST_CASE("a pair of texts has the special tokens and types of the original") {
  using PartKind = PairPart::Kind;
  using Parts = std::vector<PairPart>;
  json tokenizer = test::tiny_tokenizer_json();
  const auto parts = [&](const json& config = json::object()) {
    return test::make_tiny_tokenizer(tokenizer, config)->pair_parts();
  };
  const PairPart first = {.kind = PartKind::kFirst};
  const PairPart second = {.kind = PartKind::kSecond, .id = 0, .type = 1};
  CHECK(parts() == Parts{first, second});
  const json ends = {{"eos_token", "<|end|>"}, {"add_eos_token", true}};
  CHECK(parts(ends) == Parts{first, {.id = 261}, second, {.id = 261, .type = 1}});
  tokenizer["post_processor"] = {{"type", "BertProcessing"}, {"sep", {"he", 256}}, {"cls", {"ll", 257}}};
  CHECK(parts() == Parts{{.id = 257}, first, {.id = 256}, second, {.id = 256, .type = 1}});
  tokenizer["post_processor"]["type"] = "RobertaProcessing";
  CHECK(parts() == Parts{{.id = 257}, first, {.id = 256}, {.id = 256}, {.kind = PartKind::kSecond}, {.id = 256}});
  tokenizer["post_processor"] = {{"type", "TemplateProcessing"},
                                 {"single", {{{"Sequence", {{"id", "A"}}}}}},
                                 {"pair", {{{"Sequence", {{"id", "A"}}}}, {{"Sequence", {{"id", "A"}}}}}},
                                 {"special_tokens", json::object()}};
  CHECK(error_message([&] { parts(); }) == Contains("pair: must have each of two texts once"));
}

TEST_CASE("uncased WordPiece reads capitals and accents as small letters without") {
  const auto bert = open("bert_uncased");
  CHECK(bert->encode("H\xC3\xA9LLO") == bert->encode("hello"));
  CHECK(decode(*bert, bert->encode("Hello World")) == "hello world");
  CHECK(bert->description().starts_with("WordPiece, "));
}

TEST_CASE("a word longer than the limit is unknown") {
  const auto bert = open("bert_cased");
  CHECK(bert->encode(std::string(100, 'a')) != Ids{1});
  CHECK(bert->encode(std::string(101, 'a')) == Ids{1});
}

TEST_CASE("the files written for a GGUF's SentencePiece tokenizer are read as the same tokenizer") {
  const auto original = load_tokenizer(*files::open_gguf(test::kTokenizerData / "gguf_llama" / "tokenizer.gguf"));
  const test::TemporaryDirectory directory;
  for (const TokenizerFile& file : original->files()) test::write_file(directory.path() / file.name, file.content);
  const auto copy = read_tokenizer_directory(directory.path());
  for (const char* text : {"Hello world", "</s>a", "  \xF0\x9F\x98\x80\n"}) {
    CHECK(copy->encode(text) == original->encode(text));
    CHECK(decode(*copy, copy->encode(text)) == decode(*original, original->encode(text)));
  }
  CHECK(copy->leading_special_tokens() == original->leading_special_tokens());
  CHECK(original->adds_bos());
}

TEST_CASE("SentencePiece's own file after a special token gets no space unless the configuration is legacy") {
  const test::TemporaryDirectory directory;
  test::write_file(directory.path() / "tokenizer.model",
                   test::read_file(test::kTokenizerData / "sentencepiece_bpe" / "tokenizer.model"));
  const auto modern = read_tokenizer_directory(directory.path());
  test::write_file(directory.path() / "tokenizer_config.json", R"({"legacy": true})");
  const auto legacy = read_tokenizer_directory(directory.path());
  const std::string text = "a</s>b";
  CHECK(decode(*modern, modern->encode(text)) == "ab");
  CHECK(decode(*legacy, legacy->encode(text)) == "a b");
  CHECK(modern->eos() == 2);
  CHECK(modern->files()[0].name == "tokenizer.model");
  test::write_file(directory.path() / "tokenizer_config.json",
                   R"({"add_bos_token": false, "add_prefix_space": false})");
  CHECK_FALSE(read_tokenizer_directory(directory.path())->adds_bos());
  CHECK_FALSE(read_tokenizer_directory(directory.path())->drops_first_space());
}

TEST_CASE("damaged SentencePiece models are refused with the file's name") {
  const test::TemporaryDirectory directory;
  const std::string whole = test::read_file(test::kTokenizerData / "sentencepiece_bpe" / "tokenizer.model");
  const std::filesystem::path file = directory.path() / "tokenizer.model";
  for (const std::string& content : {std::string(), std::string("x"), whole.substr(0, whole.size() / 2 + 1)}) {
    test::write_file(file, content);
    CHECK(refusal(directory.path()) == Contains("tokenizer.model: is not a SentencePiece model"));
  }
}

TEST_CASE("bare vocabularies that do not fit together are refused with the file's name") {
  const test::TemporaryDirectory directory;
  test::write_file(directory.path() / "vocab.txt", "\xEF\xBB\xBF[UNK]\r\n[CLS]\r\n[SEP]\r\na\r\nb\r\na\r\na\r\n");
  const auto twice = read_tokenizer_directory(directory.path());
  CHECK(twice->encode("a b") == Ids{6, 4});  // as in transformers
  CHECK(twice->token_bytes(3) == twice->token_bytes(6));
  CHECK(twice->token_bytes(5) == twice->token_bytes(6));
  CHECK(twice->warnings().size() == 1);
  test::write_file(directory.path() / "vocab.txt", "[UNK]\n[CLS]\n");
  CHECK(refusal(directory.path()) == Contains("has no token \"[SEP]\""));
  test::write_file(directory.path() / "vocab.txt", "[CLS]\n[SEP]\n");
  CHECK(refusal(directory.path()) == Contains("\"[UNK]\" is not in the vocabulary"));
  std::filesystem::remove(directory.path() / "vocab.txt");
  test::write_file(directory.path() / "vocab.json", R"({"a": 0, "b": 1, "ab": 2})");
  test::write_file(directory.path() / "merges.txt", "#version: 0.2\na b\n");
  CHECK(refusal(directory.path()) == Contains("vocab.json: how text is cut for it is known for GPT2Tokenizer"));
  CHECK(read_tokenizer_directory(directory.path(), {{"model_type", "gpt2"}})->encode("ab") == Ids{2});
  test::write_file(directory.path() / "tokenizer_config.json", R"({"tokenizer_class": "Qwen2Tokenizer"})");
  CHECK(read_tokenizer_directory(directory.path())->encode("ab") == Ids{2});
  test::write_file(directory.path() / "merges.txt", "#version: 0.2\na c\n");
  CHECK(refusal(directory.path()) == Contains("merges[0]: has or makes \"c\""));
}

TEST_CASE("damaged Unigram and WordPiece models are refused with their place") {
  const auto with = [](const char* kind, const char* key, json value) {
    json tokenizer = json::parse(test::read_file(test::kTokenizerData / kind / "tokenizer.json"));
    tokenizer["model"][key] = std::move(value);
    return error_message([&] { test::make_tiny_tokenizer(tokenizer); });
  };
  CHECK(with("unigram_bytes", "vocab", json::array()) == "tokenizer.json: model.vocab: has no tokens");
  CHECK(with("unigram_bytes", "vocab", json::array({json::array({"a", "b"})})) ==
        Contains("model.vocab[0][1]: must be a number, is \"b\""));
  CHECK(with("unigram_bytes", "unk_id", 100000) == Contains("model.unk_id: is 100000, there are"));
  CHECK(with("bert_cased", "unk_token", "?!?") == Contains("\"?!?\" is not in the vocabulary"));
  CHECK(with("bert_cased", "max_input_chars_per_word", 0) ==
        Contains("max_input_chars_per_word: must be between 1 and"));
}

TEST_CASE("added tokens may be beyond the embedding: texts with one are refused, others are not") {
  const auto tokenizer = test::make_tiny_tokenizer();
  CHECK_NOTHROW(check_tokenizer(*tokenizer, 261, nlohmann::json::object(), "m"));
  CHECK(tokenizer->encode("he<|end|>") == Ids{256, 261});
  tokenizer->set_embedding_rows(261);
  CHECK(tokenizer->encode("he") == Ids{256});
  CHECK(
      error_message([&] { tokenizer->encode("he<|end|>"); }) ==
      "token \"<|end|>\": has the id 261, and the model's embedding 261 rows: the model cannot read this token, leave "
      "it out of the text");
  CHECK_NOTHROW(tokenizer->encode("<|end|>", std::vector{ByteRange{0, 7}}));
  const auto framed =
      test::make_tiny_tokenizer(test::tiny_tokenizer_json(), {{"eos_token", "<|end|>"}, {"add_eos_token", true}});
  CHECK(error_message([&] { check_embedding_rows(*framed, 261, "m"); }) ==
        Contains("m: the tokenizer puts \"<|end|>\" around every text, whose id is 261"));
}

TEST_CASE("a tokenizer that does not belong to the model is refused") {
  const auto tokenizer = test::make_tiny_tokenizer();
  CHECK_NOTHROW(check_tokenizer(*tokenizer, 262, {{"eos_token_id", {261, 5}}, {"pad_token_id", -1}}, "m"));
  CHECK(error_message([&] { check_tokenizer(*tokenizer, 260, {}, "m"); }) == Contains("the embedding 260 rows"));
  CHECK(error_message([&] { check_tokenizer(*tokenizer, 400, {{"eos_token_id", {261, 300}}}, "m"); }) ==
        Contains("m: config.json: eos_token_id is 300, which the tokenizer does not have"));
  for (const char* kind : {"bert_uncased", "llama_first", "unigram_unknown", "sentencepiece_unigram"}) {
    CAPTURE(kind);
    CHECK_NOTHROW(check_tokenizer(*open(kind), open(kind)->vocab_size() + 64, {{"pad_token_id", 0}}, "m"));
  }
  CHECK(error_message([&] { check_tokenizer(*open("removed"), 512, nlohmann::json::object(), "m"); }) ==
        Contains("does not give back"));
}

}  // namespace
}  // namespace ballast::text
