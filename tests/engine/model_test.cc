#include "ballast/model.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "ballast/error.h"
#include "error_message.h"
#include "temporary_directory.h"
#include "tiny_model.h"
#include "tiny_tokenizer.h"

namespace ballast {
namespace {

using test::Contains;
using test::error_message;

/// A random model with the tiny tokenizer.
class WithTokenizer {
 public:
  explicit WithTokenizer(bool overflows = false) {
    test::TinyModel model = test::random_model();
    model.tokenizer = test::tiny_tokenizer_json();
    if (overflows) {
      for (float& value : model.at("lm_head.weight").values) value = std::copysign(3e38F, value);
    }
    path_ = model.write(directory_ / "model");
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  test::TemporaryDirectory directory_;
  std::filesystem::path path_;
};

TEST_CASE("a text's ids give the text again, as a whole and token by token") {
  const WithTokenizer tiny;
  const Model model(tiny.path());
  const std::vector<int> ids = model.encode("some words");
  CHECK(model.decode(ids) == "some words");
  std::string bytes;
  for (const int id : ids) bytes += model.token_bytes(id);
  CHECK(bytes == "some words");
}

TEST_CASE("log-probabilities are those of the logits' softmax") {
  const WithTokenizer tiny;
  const Model model(tiny.path());
  const std::vector<int> ids = {1, 5, 2, 7, 3};
  const Tensor logits = model.logits(ids);
  const std::size_t vocab_size = model.spec().vocab_size;
  REQUIRE(logits.values.size() == ids.size() * vocab_size);
  const std::vector<double> scores = model.log_probabilities(ids);
  REQUIRE(scores.size() == ids.size() - 1);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const float* row = logits.values.data() + i * vocab_size;
    double total = 0;
    for (std::size_t token = 0; token < vocab_size; ++token) total += std::exp(double{row[token]});
    const double expected = double{row[ids[i + 1]]} - std::log(total);
    CHECK(scores[i] == doctest::Approx(expected).epsilon(1e-6));
  }
}

TEST_CASE("activations after the last layer, normalized and multiplied by the head, are the logits") {
  test::TinyModel tiny = test::random_model();
  const test::TemporaryDirectory directory;
  const Model model(tiny.write(directory / "model"));
  const std::vector<int> ids = {1, 5, 2, 7, 3};
  const std::size_t layers = model.spec().layers.size();
  const std::size_t size = model.spec().hidden_size;
  const Tensor hidden = model.activations(ids, layers);
  REQUIRE(hidden.shape == Shape{5, static_cast<std::int64_t>(size)});
  const std::vector<float>& gains = tiny.at("model.norm.weight").values;
  const std::vector<float>& head = tiny.at("lm_head.weight").values;
  const Tensor logits = model.logits(ids);
  for (std::size_t token = 0; token < ids.size(); ++token) {
    const float* row = hidden.values.data() + token * size;
    double squares = 0;
    for (std::size_t i = 0; i < size; ++i) squares += double{row[i]} * row[i];
    const double scale = 1 / std::sqrt(squares / static_cast<double>(size) + model.spec().norm.epsilon);
    double first = 0;  // logit of id 0
    for (std::size_t i = 0; i < size; ++i) first += double{row[i]} * scale * gains[i] * head[i];
    CHECK(logits.values[token * model.spec().vocab_size] == doctest::Approx(first).epsilon(1e-4));
  }
}

TEST_CASE("activations of layer 0 are the embedding, and no model has more than its layers") {
  test::TinyModel tiny = test::random_model();
  const test::TemporaryDirectory directory;
  const Model model(tiny.write(directory / "model"));
  const std::vector<int> ids = {5, 0};
  const std::vector<float>& table = tiny.at("model.embed_tokens.weight").values;
  const Tensor rows = model.activations(ids, 0);
  const std::size_t size = model.spec().hidden_size;
  for (std::size_t i = 0; i < size; ++i) {
    CHECK(rows.values[i] == table[5 * size + i]);
    CHECK(rows.values[size + i] == table[i]);
  }
  CHECK(error_message([&] { model.activations(ids, model.spec().layers.size() + 1); }) == Contains("the model has"));
  CHECK(error_message([&] { model.activations({}, 1); }) == Contains("there are none"));
}

TEST_CASE("logits are refused where they are not finite, and scores of an encoder") {
  const WithTokenizer infinite(true);
  const std::vector<int> ids = {1, 2};
  CHECK(error_message([&] { Model(infinite.path()).logits(ids); }) == Contains("the model's output is not finite"));
  CHECK(error_message([&] { Model(test::golden_model("bert")).log_probabilities(ids); }) == Contains("is an encoder"));
}

TEST_CASE("ids that the vocabulary or the context does not have are refused") {
  const WithTokenizer tiny;
  const Model model(tiny.path());
  const auto vocab_size = static_cast<int>(model.spec().vocab_size);
  CHECK(error_message([&] { model.logits(std::vector<int>{}); }) == Contains("there are none"));
  CHECK(error_message([&] { model.logits(std::vector<int>{0, vocab_size}); }) == Contains("vocabulary"));
  CHECK(error_message([&] { model.log_probabilities(std::vector<int>{0, vocab_size}); }) == Contains("vocabulary"));
  const std::vector<int> many(model.context_length() + 1, 0);
  CHECK(error_message([&] { model.logits(many); }) == Contains("do not fit the model's context"));
}

}  // namespace
}  // namespace ballast
