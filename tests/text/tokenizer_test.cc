#include "text/tokenizer.h"

#include <filesystem>
#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "error_message.h"
#include "files/utf8.h"
#include "temporary_directory.h"
#include "text/readers/tokenizer_files.h"
#include "text/unicode/regex.h"
#include "tiny_tokenizer.h"

namespace ballast::text {
namespace {

using nlohmann::json;
using test::Contains;
using test::error_message;
using test::make_tiny_tokenizer;
using test::tiny_tokenizer_json;
using Ids = std::vector<int>;

constexpr int kHello = 259;
constexpr int kSpaceHello = 260;
constexpr int kEnd = 261;
constexpr int kAdded = 262;

json with_added(json token) {
  json tokenizer = tiny_tokenizer_json();
  token["id"] = kAdded;
  tokenizer["added_tokens"].push_back(std::move(token));
  return tokenizer;
}

Ids encode(const json& tokenizer, std::string_view text) {
  return make_tiny_tokenizer(tokenizer)->encode(text);
}

std::string refusal(const json& tokenizer, const json& config = json::object()) {
  return error_message([&] { make_tiny_tokenizer(tokenizer, config); });
}

TEST_CASE("text becomes ids and ids become text") {
  const auto tokenizer = make_tiny_tokenizer();
  CHECK(tokenizer->encode("hello hello<|end|>") == Ids{kHello, kSpaceHello, kEnd});
  CHECK(tokenizer->token_bytes(kSpaceHello) == " hello");
  CHECK(tokenizer->token_bytes(kEnd) == "<|end|>");
  CHECK(tokenizer->is_special(kEnd));
  CHECK_FALSE(tokenizer->is_special(kHello));
  CHECK(tokenizer->vocab_size() == 262);
  CHECK(tokenizer->description() == "byte-level BPE, 262 tokens, 1 special");
  CHECK(tokenizer->encode("").empty());
}

TEST_CASE("a text is encoded only until it is known to be too long") {
  const auto tokenizer = make_tiny_tokenizer();
  const std::string text(8'000'000, 'a');
  const Ids ids = tokenizer->encode(text, {}, 64);
  CHECK(ids.size() > 64);
  CHECK(ids.size() < 100'000);
  std::string longer;
  for (int i = 0; i < 50'000; ++i) longer += "hello ";
  CHECK(tokenizer->encode(longer, {}, 200'000) == tokenizer->encode(longer));
  CHECK(tokenizer->encode(longer, {}, 1000).size() > 1000);
  CHECK(tokenizer->encode("hello", {}, 1) == Ids{kHello});
}

TEST_CASE("matching of a text that takes too long ends with an error") {
  json tokenizer = tiny_tokenizer_json();
  const json split = {{"type", "Split"},
                      {"pattern", {{"Regex", R"(\d{1,3}(?=(?:\d{3})*\b))"}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  tokenizer["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {split, tokenizer["pre_tokenizer"]}}};
  const auto made = make_tiny_tokenizer(tokenizer);
  CHECK(made->encode(std::string(1000, '1'), {}, 100).size() == 1000);
  const MatchingTime time(0.02);
  CHECK(error_message([&] { made->encode(std::string(200'000, '1')); }) == Contains("takes too long"));
}

TEST_CASE("unknown ids decode to nothing") {
  const auto tokenizer = make_tiny_tokenizer();
  for (const int id : {-1, 262, 1 << 30}) {
    CHECK(tokenizer->token_bytes(id).empty());
    CHECK_FALSE(tokenizer->is_special(id));
  }
}

TEST_CASE("encoding and decoding restores every byte") {
  const auto tokenizer = make_tiny_tokenizer();
  std::string text;
  for (char32_t c = 0; c < 0x3000; ++c) files::append_utf8(c, text);
  std::string decoded;
  for (const int id : tokenizer->encode(text)) decoded += tokenizer->token_bytes(id);
  CHECK(decoded == text);
}

TEST_CASE("the longest of the added tokens that begin at a place is taken") {
  const json tokenizer = with_added({{"content", "<|end|>>"}, {"special", true}});
  CHECK(encode(tokenizer, "<|end|>>") == Ids{kAdded});
  CHECK(encode(tokenizer, "<|end|>hello") == Ids{kEnd, kHello});
}

TEST_CASE("lstrip and rstrip include the adjacent white space") {
  CHECK(encode(with_added({{"content", "<t>"}, {"lstrip", true}}), "hello \n<t> hello") ==
        Ids{kHello, kAdded, kSpaceHello});
  CHECK(encode(with_added({{"content", "<t>"}, {"rstrip", true}}), "hello<t> \xC2\xA0 <t>") ==
        Ids{kHello, kAdded, kAdded});
}

TEST_CASE("a single_word token is not found within a word") {
  const json word = with_added({{"content", "zz"}, {"single_word", true}});
  CHECK(encode(word, "zz") == Ids{kAdded});
  CHECK(encode(word, "hello.zz").back() == kAdded);
  CHECK(encode(word, "azz").size() == 3);
  CHECK(encode(word, "zz_").size() == 3);
  CHECK(encode(word, "zz\xC3\xA9").size() == 4);
}

TEST_CASE("normalized tokens are matched in the normalized text, and others in the original text") {
  json tokenizer = with_added({{"content", "\xE1\xBB\x87"}, {"normalized", true}});
  tokenizer["normalizer"] = {{"type", "NFC"}};
  const std::string decomposed = "e\xCC\xA3\xCC\x82";
  CHECK(encode(tokenizer, decomposed) == Ids{kAdded});
  tokenizer["added_tokens"][1]["normalized"] = false;
  CHECK(encode(tokenizer, decomposed).size() == 3);
}

TEST_CASE("tokens of tokenizer_config.json are found, too") {
  const json decoder = {{"262", {{"content", "<x>"}, {"special", true}}}};
  const json config = {{"added_tokens_decoder", decoder},
                       {"eos_token", {{"content", "<x>"}}},
                       {"pad_token", "not there"},
                       {"bos_token", "hello"}};
  const auto tokenizer = make_tiny_tokenizer(tiny_tokenizer_json(), config);
  CHECK(tokenizer->encode("<x>hello") == Ids{kAdded, kHello});
  CHECK(tokenizer->eos() == kAdded);
  CHECK(tokenizer->bos() == kHello);
  CHECK(tokenizer->is_special(kHello));
  CHECK_FALSE(tokenizer->adds_bos());
}

TEST_CASE("bos is added if the template or the configuration requires it") {
  json tokenizer = tiny_tokenizer_json();
  const json special = {{"<|end|>", {{"id", "<|end|>"}, {"ids", json::array({kEnd})}}}};
  const json first = {{"SpecialToken", {{"id", "<|end|>"}}}};
  tokenizer["post_processor"] = {{"type", "TemplateProcessing"},
                                 {"single", json::array({first, {{"Sequence", {{"id", "A"}}}}})},
                                 {"special_tokens", special}};
  CHECK(make_tiny_tokenizer(tokenizer)->adds_bos());
  CHECK(make_tiny_tokenizer(tokenizer)->bos() == kEnd);
  CHECK_FALSE(make_tiny_tokenizer(tokenizer, {{"add_bos_token", false}})->adds_bos());
  CHECK(make_tiny_tokenizer(tiny_tokenizer_json(), {{"add_bos_token", true}, {"bos_token", "<|end|>"}})->adds_bos());
  tokenizer["post_processor"]["special_tokens"]["<|end|>"]["ids"] = json::array({999});
  CHECK(refusal(tokenizer) == "tokenizer.json: post_processor: no token has id 999");
}

TEST_CASE("kinds and options that are not supported are named") {
  const auto with = [](const char* key, json value) {
    json tokenizer = tiny_tokenizer_json();
    tokenizer["model"][key] = std::move(value);
    return tokenizer;
  };
  CHECK(refusal(with("type", "WordLevel")) ==
        "tokenizer.json: model.type: \"WordLevel\" is not supported; BPE, Unigram and WordPiece are");
  CHECK(refusal(with("end_of_word_suffix", "</w>")) == Contains("model.end_of_word_suffix"));
  json tokenizer = tiny_tokenizer_json();
  tokenizer["normalizer"] = {{"type", "Unheard"}};
  CHECK(refusal(tokenizer) == "tokenizer.json: normalizer: normalizer \"Unheard\" is not supported");
  tokenizer["normalizer"] = nullptr;
  tokenizer["post_processor"] = {{"type", "Unheard"}};
  CHECK(refusal(tokenizer) == Contains("post-processor \"Unheard\""));
  tokenizer["post_processor"] = nullptr;
  tokenizer["decoder"] = {{"type", "CTC"}};
  CHECK(refusal(tokenizer) == Contains("decoder \"CTC\""));
}

TEST_CASE("damaged vocabularies and merges are refused with their place") {
  json tokenizer = tiny_tokenizer_json();
  json& model = tokenizer["model"];
  const json vocab = model["vocab"];
  model["vocab"]["extra"] = 5;
  CHECK(refusal(tokenizer) == Contains("tokenizer.json: model.vocab: id 5 is given twice"));
  model["vocab"]["extra"] = -1;
  CHECK(refusal(tokenizer) == Contains("model.vocab.extra: must be between 0 and 16777216, is -1"));
  model["vocab"]["extra"] = "5";
  CHECK(refusal(tokenizer) == Contains("model.vocab.extra: must be a whole number"));
  model["vocab"]["extra"] = 16'000'000;
  CHECK(refusal(tokenizer) == Contains("have ids up to 16000000"));
  model["vocab"]["extra"] = 18446744073709551615u;
  CHECK(refusal(tokenizer) == Contains("must be between 0 and 16777216"));
  model["vocab"] = vocab;
  const json broken_merges[] = {{"q z"}, {"h e l"}, {5}, {{"h"}}, {"nospace"}, {{"h", 5}}, {{"unknown", "e"}}};
  for (const json& merges : broken_merges) {
    CAPTURE(merges.dump());
    model["merges"] = merges.is_array() ? merges : json::array({merges});
    CHECK(refusal(tokenizer) == Contains("tokenizer.json: model.merges[0]: "));
  }
  model["merges"] = "none";
  CHECK(refusal(tokenizer) == "tokenizer.json: model.merges: must be a list, is \"none\"");
  model.erase("vocab");
  CHECK(refusal(tokenizer) == "tokenizer.json: model.vocab: missing");
}

TEST_CASE("wrong types anywhere in the file are an Error") {
  const json whole = tiny_tokenizer_json().flatten();
  std::size_t tried = 0;
  for (const auto& [path, value] : whole.items()) {
    if (path.starts_with("/model/vocab") || value.is_null()) continue;
    json tokenizer = tiny_tokenizer_json();
    tokenizer[json::json_pointer(path)] = json::object({{"wrong", 1}});
    CAPTURE(path);
    CHECK(refusal(tokenizer) == Contains("tokenizer.json: "));
    ++tried;
  }
  CHECK(tried > 10);
  CHECK(refusal(json::array()) == "tokenizer.json: must be an object, is []");
  CHECK(refusal(tiny_tokenizer_json(), {{"eos_token", 5}}) == Contains("tokenizer_config.json: eos_token"));
  CHECK(refusal(tiny_tokenizer_json(), {{"chat_template", 5}}) == Contains("tokenizer_config.json: chat_template"));
}

TEST_CASE("merges may be stored as pairs") {
  json tokenizer = tiny_tokenizer_json();
  tokenizer["model"]["merges"] = json::array({{"h", "e"}, {"l", "l"}, {"he", "ll"}, {"hell", "o"}});
  CHECK(encode(tokenizer, "hello") == Ids{kHello});
}

TEST_CASE("a tokenizer returns the files that it was read from") {
  const json config = {{"eos_token", "<|end|>"}, {"anything", {1, 2}}};
  const auto tokenizer = make_tiny_tokenizer(tiny_tokenizer_json(), config);
  REQUIRE(tokenizer->files().size() == 2);
  CHECK(tokenizer->files()[0].name == "tokenizer.json");
  CHECK(json::parse(tokenizer->files()[0].content) == tiny_tokenizer_json());
  CHECK(tokenizer->files()[1].name == "tokenizer_config.json");
  CHECK(json::parse(tokenizer->files()[1].content) == config);
}

TEST_CASE("a directory without a tokenizer has none, and an unsupported kind is named") {
  const test::TemporaryDirectory directory;
  CHECK(read_tokenizer_directory(directory.path()) == nullptr);
  std::ofstream(directory.path() / "tekken.json") << "x";
  CHECK(error_message([&] { read_tokenizer_directory(directory.path()); }) == Contains("tekken.json: "));
}

TEST_CASE("the files of a directory are combined, and config.json names bos and eos if they do not") {
  const test::TemporaryDirectory directory;
  std::ofstream(directory.path() / "tokenizer.json") << tiny_tokenizer_json();
  std::ofstream(directory.path() / "chat_template.jinja") << "template";
  const auto tokenizer =
      read_tokenizer_directory(directory.path(), {{"eos_token_id", {kEnd, 0}}, {"bos_token_id", 5000}});
  CHECK(tokenizer->chat_template() == "template");
  CHECK(json::parse(tokenizer->files()[1].content) == json{{"chat_template", "template"}});
  CHECK(tokenizer->eos() == kEnd);
  CHECK_FALSE(tokenizer->bos().has_value());
}

TEST_CASE("a token that is null in tokenizer_config.json is absent, even if config.json has one") {
  const test::TemporaryDirectory directory;
  std::ofstream(directory.path() / "tokenizer.json") << tiny_tokenizer_json();
  const json model = {{"eos_token_id", kEnd}, {"bos_token_id", kEnd}};
  CHECK(read_tokenizer_directory(directory.path(), model)->bos() == kEnd);
  std::ofstream(directory.path() / "tokenizer_config.json") << R"({"bos_token": null})";
  const auto tokenizer = read_tokenizer_directory(directory.path(), model);
  CHECK_FALSE(tokenizer->bos().has_value());
  CHECK(tokenizer->eos() == kEnd);
  CHECK(tokenizer->special_tokens() == json{{"eos_token", "<|end|>"}});
}

TEST_CASE("special tokens have the names of the files") {
  const test::TemporaryDirectory directory;
  std::ofstream(directory.path() / "tokenizer.json") << tiny_tokenizer_json();
  std::ofstream(directory.path() / "tokenizer_config.json")
      << R"({"add_bos_token": false, "unk_token": {"content": "he"}, "image_token": "hell", "pad_token": null,
             "extra_special_tokens": {"audio_token": "ll", "other": "x"}, "additional_special_tokens": ["<|end|>"]})";
  std::ofstream(directory.path() / "special_tokens_map.json")
      << R"({"eos_token": "<|end|>", "unk_token": "ll", "pad_token": "he"})";
  const auto tokenizer = read_tokenizer_directory(directory.path());
  CHECK(tokenizer->special_tokens() == json{{"eos_token", "<|end|>"},
                                            {"unk_token", "he"},
                                            {"image_token", "hell"},
                                            {"audio_token", "ll"},
                                            {"additional_special_tokens", {"<|end|>"}}});
  CHECK(tokenizer->eos() == kEnd);
}

TEST_CASE("separate template files have precedence over the configuration's template, and that over a processor's") {
  const test::TemporaryDirectory directory;
  const auto read = [&] { return read_tokenizer_directory(directory.path()); };
  std::ofstream(directory.path() / "tokenizer.json") << tiny_tokenizer_json();
  std::ofstream(directory.path() / "chat_template.json") << R"({"chat_template": {"default": "a", "tool_use": "b"}})";
  CHECK(read()->chat_template() == "a");
  CHECK(read()->tool_chat_template() == "b");
  std::ofstream(directory.path() / "tokenizer_config.json")
      << R"({"chat_template": [{"name": "own", "template": "c"}]})";
  CHECK(read()->chat_template() == "c");
  CHECK(read()->tool_chat_template().empty());
  std::filesystem::create_directory(directory.path() / "additional_chat_templates");
  std::ofstream(directory.path() / "additional_chat_templates" / "tool_use.jinja") << "d";
  CHECK(read()->chat_template() == "c");
  CHECK(read()->tool_chat_template() == "d");
  std::ofstream(directory.path() / "additional_chat_templates" / "default.jinja") << "e";
  CHECK(read()->chat_template() == "e");
  std::ofstream(directory.path() / "chat_template.jinja") << "\xEF\xBB\xBF" << "f";
  CHECK(read()->chat_template() == "f");
}

TEST_CASE("an invalid template, or one that is not text, is refused with its file") {
  const test::TemporaryDirectory directory;
  std::ofstream(directory.path() / "tokenizer.json") << tiny_tokenizer_json();
  for (const char* content : {"x", "[]", R"({"chat_template": 3})", R"({"chat_template": [{"name": "a"}]})"}) {
    std::ofstream(directory.path() / "chat_template.json") << content;
    CHECK(error_message([&] { read_tokenizer_directory(directory.path()); }) == Contains("chat_template.json: "));
  }
}

TEST_CASE("two tokens with the same text are loaded, and a text becomes the first") {
  json tokenizer = tiny_tokenizer_json();
  tokenizer["added_tokens"].push_back({{"id", 262}, {"content", "<|end|>"}, {"special", true}, {"normalized", false}});
  const auto made = make_tiny_tokenizer(tokenizer);
  CHECK(made->encode("<|end|>") == std::vector<int>{kEnd});
  CHECK(made->token_bytes(262) == "<|end|>");
  CHECK(made->is_special(262));
  CHECK(made->vocab_size() == 263);
  CHECK(made->warnings() ==
        std::vector<std::string>{"token \"<|end|>\" is there twice, with ids 261 and 262: a text becomes the first"});
  const auto refusal_of = [&](const json& repeated) {
    return error_message([&] { make_tiny_tokenizer(tiny_tokenizer_json(), {{"repeated_tokens", repeated}}); });
  };
  CHECK(refusal_of({{"262", {{"same_as", 5}}}}) == "no error");
  CHECK(refusal_of({{"262", {{"same_as", 999}}}}) == Contains("repeated_tokens.262.same_as: no token has this id"));
  CHECK(refusal_of({{"x", {{"same_as", 5}}}}) == Contains("\"x\" cannot be a token's id"));
}

TEST_CASE("a tokenizer accepts another chat template, also without its files") {
  const json named = {
      {"chat_template", {{{"name", "default"}, {"template", "a"}}, {{"name", "tool_use"}, {"template", "b"}}}}};
  const std::unique_ptr<Tokenizer> tokenizer = make_tiny_tokenizer(tiny_tokenizer_json(), named);
  CHECK(tokenizer->tool_chat_template() == "b");
  const std::vector<int> ids = tokenizer->encode("the cat");
  tokenizer->forget_files();
  tokenizer->set_chat_template("c");
  CHECK(tokenizer->chat_template() == "c");
  CHECK(tokenizer->tool_chat_template().empty());
  CHECK(tokenizer->encode("the cat") == ids);
}

}  // namespace
}  // namespace ballast::text
