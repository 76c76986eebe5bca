#include "ballast/embed.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "ballast/model.h"
#include "error_message.h"
#include "temporary_directory.h"
#include "tiny_model.h"
#include "tiny_tokenizer.h"

namespace ballast {
namespace {

using test::Contains;
using test::error_message;
using test::TemporaryDirectory;

constexpr std::size_t kWords = 262;  // of the tiny tokenizer

/// The golden encoder as encoders of texts are published: no head, and no "bert." before its names.
test::TinyModel published_encoder() {
  test::TinyModel golden = test::read_model(test::golden_model("bert"));
  test::TinyModel model{.config = golden.config, .tensors = {}, .tokenizer = test::tiny_tokenizer_json()};
  model.config["architectures"] = {"BertModel"};
  model.config["vocab_size"] = kWords;
  for (auto& [name, tensor] : golden.tensors) {
    if (!name.starts_with("bert.")) continue;
    model.tensors[name.substr(5)] = std::move(tensor);
  }
  Tensor& words = model.at("embeddings.word_embeddings.weight");
  const std::size_t known = words.values.size();
  words.shape[0] = kWords;
  words.values.resize(kWords * 32);
  for (std::size_t i = known; i < words.values.size(); ++i) words.values[i] = words.values[i - known];
  return model;
}

/// Beside the model, as sentence-transformers writes it.
void write_modules(const std::filesystem::path& model, const nlohmann::json& pooling, bool normalized,
                   int most_tokens) {
  nlohmann::json modules = {
      {{"idx", 0}, {"name", "0"}, {"path", ""}, {"type", "sentence_transformers.models.Transformer"}},
      {{"idx", 1}, {"name", "1"}, {"path", "1_Pooling"}, {"type", "sentence_transformers.models.Pooling"}}};
  if (normalized) {
    modules.push_back(
        {{"idx", 2}, {"name", "2"}, {"path", "2_Normalize"}, {"type", "sentence_transformers.models.Normalize"}});
  }
  std::filesystem::create_directories(model / "1_Pooling");
  test::write_file(model / "modules.json", modules.dump());
  test::write_file(model / "1_Pooling" / "config.json", pooling.dump());
  test::write_file(model / "sentence_bert_config.json", nlohmann::json{{"max_seq_length", most_tokens}}.dump());
}

std::vector<float> hidden_values(const Model& model, const std::string& text, Pooling pooling) {
  const std::vector<std::string> texts = {text};
  return model.embed(texts, {.pooling = pooling, .normalized = false, .cache_type = CacheOptions::Type::kF32}).values;
}

double length_of(std::span<const float> vector) {
  double squares = 0;
  for (const float value : vector) squares += double{value} * value;
  return std::sqrt(squares);
}

TEST_CASE("a text's vector does not depend on the texts beside it") {
  const TemporaryDirectory directory;
  const Model model(published_encoder().write(directory / "m"));
  std::vector<std::string> texts;
  for (int i = 0; i < 40; ++i) texts.push_back("text " + std::string(static_cast<std::size_t>(i), 'x'));
  const TextVectors together = model.embed(texts);
  REQUIRE(together.size == 32);
  REQUIRE(together.values.size() == texts.size() * 32);
  std::size_t tokens = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const TextVectors alone = model.embed(std::span(texts).subspan(i, 1));
    CHECK(alone.values == std::vector<float>(together.values.begin() + static_cast<std::ptrdiff_t>(i * 32),
                                             together.values.begin() + static_cast<std::ptrdiff_t>((i + 1) * 32)));
    CHECK(length_of(alone.values) == doctest::Approx(1));
    tokens += alone.tokens;
  }
  CHECK(together.tokens == tokens);
  CHECK(together.cut == 0);
}

TEST_CASE("pooling takes the mean, the first or the last of a text's tokens") {
  const TemporaryDirectory directory;
  const Model model(published_encoder().write(directory / "m"));
  const std::vector<float> mean = hidden_values(model, "!\"#", Pooling::kMean);
  // What the runs of two pieces of the same text have in common is nothing: an encoder's tokens see all others.
  CHECK(hidden_values(model, "!\"#", Pooling::kFirst) != hidden_values(model, "!\"", Pooling::kFirst));
  CHECK(hidden_values(model, "!", Pooling::kFirst) == hidden_values(model, "!", Pooling::kLast));
  CHECK(hidden_values(model, "!", Pooling::kFirst) == hidden_values(model, "!", Pooling::kMean));
  CHECK(hidden_values(model, "!\"#", Pooling::kFirst) != hidden_values(model, "!\"#", Pooling::kLast));
  CHECK(mean != hidden_values(model, "!\"#", Pooling::kLast));
}

TEST_CASE("what the makers of a model say of its vectors is done, unless options say otherwise") {
  const TemporaryDirectory directory;
  const std::filesystem::path path = published_encoder().write(directory / "m");
  const std::vector<std::string> texts = {"abcdefgh"};
  const Model plain(path);
  CHECK_FALSE(plain.spec().text_vectors.has_value());
  const EmbedOptions first = {.pooling = Pooling::kFirst, .normalized = false};
  SUBCASE("older files have a flag for each kind of pooling") {
    write_modules(path, {{"pooling_mode_cls_token", true}, {"pooling_mode_mean_tokens", false}}, false, 5);
  }
  SUBCASE("newer files name it") {
    write_modules(path, {{"pooling_mode", "cls"}}, false, 5);
  }
  const Model model(path);
  REQUIRE(model.spec().text_vectors.has_value());
  CHECK(*model.spec().text_vectors ==
        TextVectorSpec{.pooling = Pooling::kFirst, .normalized = false, .most_tokens = 5});
  const TextVectors cut = model.embed(texts);
  CHECK(cut.cut == 1);
  CHECK(cut.tokens == 5);
  CHECK(cut.values == plain.embed(std::vector<std::string>{"abcde"}, first).values);
  EmbedOptions all = first;
  all.most_tokens = 64;
  CHECK(model.embed(texts, all).values == plain.embed(texts, first).values);
}

TEST_CASE("modules that make something else of a text are refused") {
  const TemporaryDirectory directory;
  const std::filesystem::path path = published_encoder().write(directory / "m");
  const auto refusal = [&] { return error_message([&] { const Model model(path); }); };
  write_modules(path, {{"pooling_mode_max_tokens", true}}, true, 64);
  CHECK(refusal() == Contains("pooling_mode_max_tokens: is not supported; supported: cls, mean, lasttoken"));
  write_modules(path, {{"pooling_mode", "weightedmean"}}, true, 64);
  CHECK(refusal() == Contains("'weightedmean' is not supported"));
  write_modules(path, {{"pooling_mode_cls_token", true}, {"pooling_mode_mean_tokens", true}}, true, 64);
  CHECK(refusal() == Contains("several kinds of pooling"));
  write_modules(path, nlohmann::json::object(), true, 64);
  CHECK(refusal() == Contains("says no kind of pooling"));
  test::write_file(path / "modules.json", R"([{"path": "2_Dense", "type": "sentence_transformers.models.Dense"}])");
  CHECK(refusal() == Contains("'sentence_transformers.models.Dense' is not supported"));
  test::write_file(path / "modules.json", "[{");
  CHECK(refusal() == Contains("modules.json"));
}

TEST_CASE("what has no tokens has no vector, and a model without a head no logits") {
  const TemporaryDirectory directory;
  const Model model(published_encoder().write(directory / "m"));
  CHECK(error_message([&] { model.embed(std::vector<std::string>{"a", "", "b"}); }) ==
        Contains("text 2: has no tokens"));
  CHECK(error_message([&] { model.logits(std::vector<int>{1, 2}); }) == Contains("has no head"));
}

}  // namespace
}  // namespace ballast
