// Tokenizers of encoder-decoder models. tests/data/sequence_tokenizers is written by
// scripts/compare_sequence_tokenizers.py --write-golden.
#include <cstddef>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ballast/error.h"
#include "doctest/doctest.h"
#include "error_message.h"
#include "temporary_directory.h"
#include "text/readers/sentencepiece_model.h"
#include "text/readers/tokenizer_files.h"
#include "text/tokenizer.h"
#include "text/tokenizer_check.h"
#include "tiny_tokenizer.h"

namespace ballast::text {
namespace {

using nlohmann::json;
using test::Contains;
using test::error_message;
using Ids = std::vector<int>;

const std::filesystem::path kSequenceData = std::filesystem::path(BALLAST_TEST_DATA) / "sequence_tokenizers";

const json& golden() {
  static const json value = json::parse(test::read_file(kSequenceData / "cases.json"));
  return value;
}

json files_of(const std::string& name) {
  for (const json& golden_case : golden()["cases"]) {
    if (golden_case["name"] == name) return golden_case["files"];
  }
  throw std::runtime_error("no case " + name);
}

// Writes files: JSON, or the content of the named model.
void write_files(const std::filesystem::path& directory, const json& files) {
  for (const auto& [name, content] : files.items()) {
    test::write_file(directory / name, content.is_string() ? test::read_file(kSequenceData / content.get<std::string>())
                                                           : content.dump());
  }
}

std::unique_ptr<Tokenizer> open_directory(const std::filesystem::path& directory) {
  const std::filesystem::path config = directory / "config.json";
  return read_tokenizer_directory(
      directory, std::filesystem::exists(config) ? json::parse(test::read_file(config)) : json::object());
}

std::unique_ptr<Tokenizer> open_files(const json& files) {
  const test::TemporaryDirectory directory;
  write_files(directory.path(), files);
  return open_directory(directory.path());
}

std::string refusal_of(const json& files) {
  return error_message([&] { open_files(files); });
}

Ids joined(Ids ids, const Ids& more) {
  ids.insert(ids.end(), more.begin(), more.end());
  return ids;
}

Ids read_ids(const Tokenizer& tokenizer, const std::string& text, const std::string& language) {
  const TextFrame frame = tokenizer.source_frame(language);
  return joined(joined(frame.before, tokenizer.encode(text)), frame.after);
}

void check_case(const Tokenizer& tokenizer, const json& golden_case) {
  const std::string source = golden_case["source"];
  const std::string target = golden_case["target"];
  for (std::size_t i = 0; i < golden()["texts"].size(); ++i) {
    const std::string text = golden()["texts"][i];
    CAPTURE(text);
    CHECK(read_ids(tokenizer, text, source) == golden_case["read"][i].get<Ids>());
    const Ids written = joined(tokenizer.target_start(target), tokenizer.encode_target(text));
    CHECK(written == golden_case["written"][i].get<Ids>());
    CHECK(decode(tokenizer, written) == golden_case["decoded"][i].get<std::string>());
  }
}

TEST_CASE("texts of encoder-decoder models have the ids that transformers gives them, and decode to its texts") {
  CHECK(golden()["cases"].size() == 15);
  for (const json& golden_case : golden()["cases"]) {
    const std::string name = golden_case["name"];
    CAPTURE(name);
    const test::TemporaryDirectory directory;
    write_files(directory.path(), golden_case["files"]);
    const auto tokenizer = open_directory(directory.path());
    REQUIRE(tokenizer != nullptr);
    check_case(*tokenizer, golden_case);
    CHECK_NOTHROW(check_tokenizer(*tokenizer, tokenizer->vocab_size(), json::object(), "m"));
    const TextFrame frame = tokenizer->source_frame("");
    CHECK(frame.before == tokenizer->leading_special_tokens());
    CHECK(frame.after == tokenizer->suffix());
    // The tokenizer's own files are the same tokenizer, without the model's config.json and older files.
    const test::TemporaryDirectory copy;
    for (const TokenizerFile& file : tokenizer->files()) test::write_file(copy.path() / file.name, file.content);
    const auto again = read_tokenizer_directory(copy.path());
    REQUIRE(again != nullptr);
    for (const std::string text : golden()["texts"]) CHECK(again->encode(text) == tokenizer->encode(text));
    CHECK(again->source_frame("") == frame);
    CHECK(again->vocab_size() == tokenizer->vocab_size());
  }
}

TEST_CASE("languages have the codes that users know, and others are refused with the list of the known ones") {
  const auto nllb = open_files(files_of("nllb"));
  CHECK(nllb->languages() == std::vector<std::string>{"eng_Latn", "fra_Latn", "zho_Hans"});
  CHECK(nllb->target_start("").empty());
  CHECK(nllb->source_frame("").before == nllb->source_frame("eng_Latn").before);
  CHECK(error_message([&] { nllb->source_frame("en"); }) ==
        "language \"en\": is unknown to the tokenizer; known are: eng_Latn, fra_Latn, zho_Hans");
  CHECK(error_message([&] { nllb->target_start("xx"); }) == Contains("known are: eng_Latn, "));
  const auto legacy = open_files(files_of("nllb_legacy"));
  CHECK(legacy->source_frame("").before.empty());
  CHECK(legacy->source_frame("").after == joined({2}, legacy->target_start("eng_Latn")));
  CHECK(legacy->target_start("") == legacy->target_start("fra_Latn"));

  const auto m2m100 = open_files(files_of("m2m100"));
  CHECK(m2m100->languages().size() == 100);
  CHECK(m2m100->token_bytes(m2m100->target_start("").front()) == "__fr__");
  CHECK(m2m100->source_frame("") == m2m100->source_frame("de"));
  CHECK(m2m100->bos() == 0);
  CHECK_FALSE(m2m100->adds_bos());
  CHECK(open_files(files_of("mbart"))->languages().size() == 25);
  CHECK(open_files(files_of("mbart50"))->languages().size() == 52);
}

TEST_CASE("a tokenizer without languages accepts none") {
  for (const char* name : {"t5", "byt5", "marian", "pegasus"}) {
    const auto tokenizer = open_files(files_of(name));
    CHECK(tokenizer->languages().empty());
    CHECK(tokenizer->target_start("").empty());
    CHECK(error_message([&] { tokenizer->source_frame("en"); }) ==
          "language \"en\": the tokenizer has no tokens for languages: name none");
  }
  CHECK(test::make_tiny_tokenizer()->encode_target("he") == test::make_tiny_tokenizer()->encode("he"));
}

TEST_CASE("a language's token beyond the embedding is refused when it is used") {
  const auto m2m100 = open_files(files_of("m2m100"));
  m2m100->set_embedding_rows(m2m100->vocab_size() - 1);
  CHECK_NOTHROW(m2m100->source_frame("fr"));
  CHECK(error_message([&] { m2m100->source_frame("zu"); }) == Contains("token \"__zu__\": has the id"));
  CHECK(error_message([&] { m2m100->target_start("zu"); }) == Contains("rows: the model cannot read this token"));
}

TEST_CASE("a configured language without a token is refused with the configuration's name") {
  json files = files_of("nllb");
  files["tokenizer_config.json"]["src_lang"] = "deu_Latn";
  CHECK(refusal_of(files) ==
        Contains("tokenizer_config.json: src_lang is \"deu_Latn\", which has no token; set one of"));
  files["tokenizer_config.json"]["src_lang"] = nullptr;
  files["tokenizer_config.json"]["tgt_lang"] = "x";
  CHECK(refusal_of(files) == Contains("tgt_lang is \"x\", which has no token"));
  files["tokenizer_config.json"]["tgt_lang"] = nullptr;
  files["tokenizer_config.json"]["additional_special_tokens"] = json::array();
  CHECK(refusal_of(files) == Contains("src_lang is \"eng_Latn\", which has no token; set one of: none"));
}

TEST_CASE("a decoded text can be streamed by the rules of its tokenizer") {
  const auto streamed = [](const Tokenizer& tokenizer, const Ids& ids) {
    StreamDecoder decoder(tokenizer);
    std::string text;
    for (const int id : ids) text += decoder.push(id);
    return text + decoder.finish();
  };
  const auto byt5 = open_files(files_of("byt5"));
  CHECK(streamed(*byt5, {0xC3 + 3, 0xA9 + 3, 0xFF + 3, 'a' + 3, 0xE2 + 3}) ==
        "\xC3\xA9"
        "a");
  CHECK(byt5->is_byte_level());
  const auto marian = open_files(files_of("marian"));
  CHECK(streamed(*marian, marian->encode_target("the house")) == "the house");
  StreamDecoder held(*marian);
  const Ids house = marian->encode_target("house ");
  std::string shown;
  for (const int id : house) shown += held.push(id);
  CHECK(shown + held.finish() == "house");
  const auto listed = open_files(files_of("t5_listed"));
  CHECK(listed->decoding_rules() == DecodingRules{.clean_up = true});
}

TEST_CASE("damaged models of encoder-decoder models are refused with the file's name") {
  const test::TemporaryDirectory directory;
  for (const auto& [name, file] :
       std::vector<std::pair<std::string, std::string>>{{"t5", "spiece.model"},
                                                        {"pegasus", "spiece.model"},
                                                        {"nllb", "sentencepiece.bpe.model"},
                                                        {"mbart", "sentencepiece.bpe.model"},
                                                        {"m2m100", "sentencepiece.bpe.model"},
                                                        {"marian", "target.spm"}}) {
    CAPTURE(name);
    write_files(directory.path(), files_of(name));
    const std::string whole = test::read_file(directory.path() / file);
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, whole.size() / 2 + 1}) {
      test::write_file(directory.path() / file, whole.substr(0, size));
      CHECK(error_message([&] { open_directory(directory.path()); }) ==
            Contains(file + ": is not a SentencePiece model"));
    }
    for (const auto& entry : std::filesystem::directory_iterator(directory.path()))
      std::filesystem::remove(entry.path());
  }
}

TEST_CASE("vocabularies of encoder-decoder models that miss something are refused") {
  json marian = files_of("marian");
  marian["vocab.json"].erase("<unk>");
  CHECK(refusal_of(marian) == Contains("vocab.json: has no token \"<unk>\", which replaces unknown ones"));
  marian = files_of("marian");
  marian.erase("target.spm");
  CHECK(refusal_of(marian) == Contains("target.spm: is missing"));
  marian["vocab.json"] = json::array();
  CHECK(refusal_of(marian) == Contains("vocab.json: "));
  json separate = files_of("marian_separate");
  separate.erase("target_vocab.json");
  CHECK(refusal_of(separate) == Contains("target_vocab.json: is missing"));
  json m2m100 = files_of("m2m100");
  m2m100["vocab.json"]["x y z"] = m2m100["vocab.json"].size() + 7;
  CHECK(refusal_of(m2m100) == Contains("the languages' tokens, which follow, would have ids of others"));
  m2m100 = files_of("m2m100");
  m2m100["tokenizer_config.json"]["language_codes"] = "x";
  CHECK(refusal_of(m2m100) == Contains("language_codes: \"x\" is unknown; m2m100 and wmt21 are known"));
  json t5 = files_of("t5_saved");
  t5["tokenizer.json"]["model"]["vocab"] = json::array({json::array({"a", 0.0})});
  CHECK(refusal_of(t5) == Contains("the vocabulary has no unknown token \"<unk>\""));
  t5["tokenizer.json"].erase("model");
  CHECK(refusal_of(t5) == Contains("tokenizer.json: model"));
  CHECK(open_files({{"tokenizer_config.json", {{"tokenizer_class", "T5Tokenizer"}}}}) == nullptr);
  CHECK(open_files({{"tokenizer_config.json", {{"tokenizer_class", "MarianTokenizer"}}}}) == nullptr);
}

TEST_CASE("every cut and every changed byte of a SentencePiece model is read or refused") {
  const std::string whole = test::read_file(kSequenceData / "t5.model");
  std::size_t read = 0;
  const auto try_model = [&](std::string_view bytes) {
    try {
      read += read_sentencepiece_model(bytes, "x.model").pieces.size();
    } catch (const Error& error) {
      CHECK(std::string(error.what()).starts_with("x.model: "));
    }
  };
  for (std::size_t size = 0; size <= whole.size(); ++size) try_model(std::string_view(whole).substr(0, size));
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 0xFF);
    try_model(changed);
  }
  CHECK(read > 0);
}

TEST_CASE("BART's vocabulary without a tokenizer.json is read with its special tokens") {
  json files = {{"config.json", {{"model_type", "bart"}}},
                {"vocab.json",
                 {{"<s>", 0}, {"<pad>", 1}, {"</s>", 2}, {"<unk>", 3}, {"a", 4}, {"b", 5}, {"ab", 6}, {"<mask>", 7}}}};
  const test::TemporaryDirectory directory;
  write_files(directory.path(), files);
  test::write_file(directory.path() / "merges.txt", "#version: 0.2\na b\n");
  const auto bart = open_directory(directory.path());
  CHECK(read_ids(*bart, "aab<mask>", "") == Ids{0, 4, 6, 7, 2});
  CHECK(bart->eos() == 2);
  CHECK(decode(*bart, Ids{0, 6, 4, 2}) == "aba");
}

}  // namespace
}  // namespace ballast::text
