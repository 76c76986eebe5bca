#include "ballast/classify.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ballast/convert.h"
#include "ballast/model.h"
#include "engine/text_classifier.h"
#include "engine/text_runner.h"
#include "error_message.h"
#include "fixed_recipe.h"
#include "model/model.h"
#include "model_runs.h"
#include "temporary_directory.h"
#include "tiny_model.h"
#include "tiny_tokenizer.h"

namespace ballast {
namespace {

using test::Contains;
using test::error_message;
using test::TemporaryDirectory;
using Ids = std::vector<int>;
using Types = std::vector<std::uint8_t>;

constexpr std::size_t kTinyWords = 262;  // of the tiny tokenizer
constexpr int kTinyEnd = 261;

/// A model with a row of its embedding for each token of the tiny tokenizer.
test::TinyModel with_words(const std::filesystem::path& path, const char* embedding) {
  test::TinyModel model = test::read_model(path);
  model.tokenizer = test::tiny_tokenizer_json();
  model.config["vocab_size"] = kTinyWords;
  Tensor& words = model.at(embedding);
  const std::size_t known = words.values.size();
  words.values.resize(kTinyWords * static_cast<std::size_t>(words.shape[1]));
  words.shape[0] = kTinyWords;
  for (std::size_t i = known; i < words.values.size(); ++i) words.values[i] = words.values[i - known];
  return model;
}

/// A golden classifier with the rows of the tiny tokenizer, which puts a special token after each text.
test::TinyModel classifier(const char* name, const char* embedding) {
  nlohmann::json tokenizer = test::tiny_tokenizer_json();
  const auto token = [](int type) { return nlohmann::json{{"SpecialToken", {{"id", "<|end|>"}, {"type_id", type}}}}; };
  const auto text = [](const char* id, int type) {
    return nlohmann::json{{"Sequence", {{"id", id}, {"type_id", type}}}};
  };
  tokenizer["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", nlohmann::json::array({text("A", 0), token(0)})},
      {"pair", nlohmann::json::array({token(0), text("A", 0), token(0), text("B", 1), token(1)})},
      {"special_tokens", {{"<|end|>", {{"id", "<|end|>"}, {"ids", {kTinyEnd}}, {"tokens", {"<|end|>"}}}}}}};
  test::TinyModel model = with_words(test::golden_classifier(name), embedding);
  model.tokenizer = tokenizer;
  return model;
}

test::TinyModel bert() {
  return classifier("bert_texts", "bert.embeddings.word_embeddings.weight");
}

engine::EncodedText pair_of(const text::Tokenizer& tokenizer, const TextPair& pair, std::size_t most,
                            std::size_t types = 2) {
  ModelSpec spec;
  spec.token_types = types;
  return engine::encode_pair(spec, tokenizer, pair, most);
}

TEST_CASE("a pair has the tokens and types of the tokenizer's template") {
  const std::unique_ptr<text::Tokenizer> tokenizer = test::make_tiny_tokenizer(bert().tokenizer);
  const engine::EncodedText pair = pair_of(*tokenizer, {.first = "!\"", .second = "#"}, 99);
  CHECK(pair.ids == Ids{kTinyEnd, 0, 1, kTinyEnd, 2, kTinyEnd});
  CHECK(pair.types == Types{0, 0, 0, 0, 1, 1});
  CHECK_FALSE(pair.cut);
  CHECK(pair_of(*tokenizer, {.first = "!", .second = "#"}, 99, 1).types.empty());
}

TEST_CASE("a pair that is too long loses the end of its longer text, then of both") {
  const std::unique_ptr<text::Tokenizer> tokenizer = test::make_tiny_tokenizer(bert().tokenizer);
  const auto ids = [&](const char* first, const char* second, std::size_t most) {
    const engine::EncodedText pair = pair_of(*tokenizer, {.first = first, .second = second}, most);
    CHECK(pair.cut);
    return pair.ids;
  };
  CHECK(ids("!", "!\"#$%", 8) == Ids{kTinyEnd, 0, kTinyEnd, 0, 1, 2, 3, kTinyEnd});
  CHECK(ids("!\"#$%", "!", 8) == Ids{kTinyEnd, 0, 1, 2, 3, kTinyEnd, 0, kTinyEnd});
  CHECK(ids("!\"#$%", "!\"#$", 8) == Ids{kTinyEnd, 0, 1, 2, kTinyEnd, 0, 1, kTinyEnd});
  CHECK(ids("!\"#$", "!\"#$%", 8) == Ids{kTinyEnd, 0, 1, kTinyEnd, 0, 1, 2, kTinyEnd});
  CHECK(error_message([&] { pair_of(*tokenizer, {.first = "a", .second = "b"}, 3); }) ==
        Contains("3 tokens leave no room"));
}

TEST_CASE("scores are those of the tokens, alone and in a batch") {
  const TemporaryDirectory directory;
  const std::filesystem::path path = bert().write(directory / "m");
  const Model model(path);
  std::vector<TextPair> pairs;
  for (int i = 0; i < 40; ++i)
    pairs.push_back({.first = "query", .second = std::string(static_cast<std::size_t>(i), 'x')});
  const Classification together = model.classify(pairs);
  CHECK(together.labels == std::vector<std::string>{"LABEL_0", "LABEL_1", "LABEL_2"});
  REQUIRE(together.texts.size() == pairs.size());
  for (std::size_t i = 0; i < pairs.size(); i += 7) {
    CHECK(model.classify(std::span(pairs).subspan(i, 1)).texts[0].scores == together.texts[i].scores);
    CHECK(together.texts[i].tokens.empty());
    double sum = 0;
    for (const float score : together.texts[i].scores) sum += score;
    CHECK(sum == doctest::Approx(1));
  }
  // The same ids without types have other scores.
  const std::vector<std::string> whole = {"<|end|>query<|end|>xxx"};
  CHECK(model.classify(whole).texts[0].scores != together.texts[3].scores);
}

TEST_CASE("raw scores are those before the function") {
  const TemporaryDirectory directory;
  test::TinyModel tiny = bert();
  const auto scores = [&](bool raw) {
    const Model model(tiny.write(directory / "m"));
    const std::vector<std::string> texts = {"hello"};
    return model.classify(texts, {.raw_scores = raw}).texts[0].scores;
  };
  const std::vector<float> raw = scores(true);
  const auto expect = [&](double (*function)(double)) {
    const std::vector<float> got = scores(false);
    for (std::size_t i = 0; i < raw.size(); ++i) CHECK(got[i] == doctest::Approx(function(double{raw[i]})));
  };
  tiny.config["problem_type"] = "multi_label_classification";
  expect([](double x) { return 1 / (1 + std::exp(-x)); });
  tiny.config["problem_type"] = "regression";
  expect([](double x) { return x; });
  SUBCASE("a CrossEncoder's own function decides, in its newest file and in older ones") {
    tiny.config["sbert_ce_default_activation_function"] = "torch.nn.modules.activation.Sigmoid";
    expect([](double x) { return 1 / (1 + std::exp(-x)); });
    tiny.config["sentence_transformers"] = {{"activation_fn", "torch.nn.modules.linear.Identity"}};
    expect([](double x) { return x; });
    const std::filesystem::path path = tiny.write(directory / "m");
    test::write_file(path / "config_sentence_transformers.json",
                     R"({"activation_fn": "torch.nn.modules.activation.Sigmoid"})");
    CHECK(Model(path).spec().classifier->function == ClassifierSpec::Function::kSigmoid);
    convert(path, directory / "written", {.recipe = test::fixed_recipe("f32")});
    CHECK(Model(directory / "written").spec().classifier->function == ClassifierSpec::Function::kSigmoid);
    tiny.config["sentence_transformers"] = {{"activation_fn", "torch.nn.modules.activation.GELU"}};
    CHECK(error_message([&] { Model(tiny.write(directory / "m")); }) ==
          Contains("supported: Sigmoid, Softmax, Identity"));
  }
}

TEST_CASE("a classifier of tokens has scores for each token that is not special") {
  const TemporaryDirectory directory;
  const Model model(classifier("roberta_tokens", "roberta.embeddings.word_embeddings.weight").write(directory / "m"));
  const Classification result = model.classify(std::vector<std::string>{"hello!", "\""});
  REQUIRE(result.texts.size() == 2);
  CHECK(result.texts[0].tokens == std::vector<std::string>{"hello", "!"});
  CHECK(result.texts[0].scores.size() == 2 * 4);
  CHECK(result.texts[1].tokens == std::vector<std::string>{"\""});
  const std::vector<std::string> documents = {"a"};
  CHECK(error_message([&] { model.rerank("q", documents); }) == Contains("cannot order documents"));
}

TEST_CASE("documents are ordered by the only label, or by vectors") {
  const TemporaryDirectory directory;
  const std::vector<std::string> documents = {"hello", "!!", "hello hello"};
  const Model scoring(classifier("modernbert_texts", "model.embeddings.tok_embeddings.weight").write(directory / "m"));
  const Ranking ranking = scoring.rerank("he", documents);
  std::vector<TextPair> pairs;
  for (const std::string& document : documents) pairs.push_back({.first = "he", .second = document});
  const Classification classified = scoring.classify(pairs);
  REQUIRE(ranking.scores.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) CHECK(ranking.scores[i] == classified.texts[i].scores.front());

  test::TinyModel bare = bert();
  bare.config["architectures"] = {"BertModel"};
  const Model vectors(bare.write(directory / "v"));
  const Ranking cosines = vectors.rerank("hello", documents);
  CHECK(cosines.scores[0] == doctest::Approx(1));
  CHECK(cosines.scores[1] < cosines.scores[0]);
  CHECK(error_message([&] { vectors.classify(documents); }) == Contains("has no classifier"));
}

TEST_CASE("a decoder scores documents by the logits of tokens after a chat") {
  const TemporaryDirectory directory;
  const std::filesystem::path path =
      with_words(test::golden_model("llama"), "model.embed_tokens.weight").write(directory / "m");
  test::write_file(path / "chat_template.jinja",
                   "{% for message in messages %}{{ message['role'][0] }}{{ message['content'] }}{% endfor %}!\"");
  std::filesystem::create_directories(path / "1_LogitScore");
  test::write_file(path / "modules.json", R"([{"path": "", "type": "a.Transformer"},
      {"path": "1_LogitScore", "type": "sentence_transformers.cross_encoder.modules.logit_score.LogitScore"}])");
  test::write_file(path / "1_LogitScore" / "config.json", R"({"true_token_id": 5, "false_token_id": 7})");
  test::write_file(path / "config_sentence_transformers.json",
                   R"({"prompts": {"short": "$"}, "default_prompt_name": "short",
                       "activation_fn": "torch.nn.modules.linear.Identity"})");
  const ClassifyOptions exact = {.cache_type = CacheOptions::Type::kF32};
  const auto expected = [](const Model& model, const std::string& text) {
    const Tensor logits = model.logits(model.encode(text, false));
    const float* last = logits.values.data() + logits.values.size() - model.spec().vocab_size;
    return doctest::Approx(last[5] - last[7]).epsilon(1e-4);
  };
  const auto score = [&](const Model& model, const std::string& document, ClassifyOptions options) {
    return model.rerank("%", std::vector<std::string>{document}, options).scores.front();
  };
  const Model model(path);
  CHECK(model.spec().has_head);
  CHECK(score(model, "&'", exact) == expected(model, "s$q%d&'!\""));
  ClassifyOptions short_one = exact;
  short_one.most_tokens = 8;
  CHECK(score(model, "&'()", short_one) == expected(model, "s$q%d&!\""));
  CHECK(error_message([&] { model.classify(std::vector<std::string>{"a"}); }) == Contains("scores pairs"));

  convert(path, directory / "written", {.recipe = test::fixed_recipe("f32")});
  const Model written(directory / "written");
  CHECK(written.spec().classifier == model.spec().classifier);
  CHECK(score(written, "&'", exact) == expected(model, "s$q%d&'!\""));

  test::write_file(path / "1_LogitScore" / "config.json", R"({"true_token_id": 500})");
  CHECK(error_message([&] { const Model refused(path); }) == Contains("true_token_id"));
  std::filesystem::remove(path / "modules.json");
  const Model plain(path);
  CHECK(error_message([&] { score(plain, "a", exact); }) == Contains("trained neither for scores nor for vectors"));
}

TEST_CASE("prompts are put before queries and documents, and vectors can be cut") {
  const TemporaryDirectory directory;
  test::TinyModel bare = bert();
  bare.config["architectures"] = {"BertModel"};
  const std::filesystem::path path = bare.write(directory / "m");
  const Model plain(path);
  std::filesystem::create_directories(path / "1_Pooling");
  test::write_file(path / "1_Pooling" / "config.json", R"({"pooling_mode": "mean"})");
  test::write_file(path / "modules.json", R"([{"path": "", "type": "a.Transformer"},
      {"path": "1_Pooling", "type": "a.Pooling"}, {"path": "2_Normalize", "type": "a.Normalize"}])");
  test::write_file(path / "config_sentence_transformers.json",
                   R"({"prompts": {"query": "he", "passage": "ll"}, "default_prompt_name": "query"})");
  const Model model(path);
  const std::vector<std::string> text = {"!"};
  const auto plain_vector = [&](const char* whole) { return plain.embed(std::vector<std::string>{whole}).values; };
  CHECK(model.embed(text).values == plain_vector("he!"));
  CHECK(model.embed(text, {.prompt_name = "passage"}).values == plain_vector("ll!"));
  CHECK(model.embed(text, {.prompt_name = ""}).values == plain_vector("!"));
  CHECK(error_message([&] { model.embed(text, {.prompt_name = "code"}); }) ==
        Contains("'code' is unknown; the model has these: passage, query"));
  const TextVectors cut = model.embed(text, {.prompt_name = "", .dimensions = 3});
  REQUIRE(cut.values.size() == 3);
  const std::vector<float> whole = plain_vector("!");
  const float length = std::sqrt(whole[0] * whole[0] + whole[1] * whole[1] + whole[2] * whole[2]);
  for (std::size_t i = 0; i < 3; ++i) CHECK(cut.values[i] == doctest::Approx(whole[i] / length));
  CHECK(error_message([&] { model.embed(text, {.dimensions = 17}); }) == Contains("the model's vectors have 16"));
  double product = 0;
  const std::vector<float> query = plain_vector("heab");
  const std::vector<float> passage = plain_vector("llcd");
  for (std::size_t i = 0; i < query.size(); ++i) product += double{query[i]} * double{passage[i]};
  CHECK(model.rerank("ab", std::vector<std::string>{"cd"}).scores[0] == doctest::Approx(product));
  convert(path, directory / "written", {.recipe = test::fixed_recipe("f32")});
  CHECK(Model(directory / "written").spec().text_vectors == model.spec().text_vectors);
}

}  // namespace
}  // namespace ballast
