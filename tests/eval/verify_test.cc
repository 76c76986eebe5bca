#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ballast/convert.h"
#include "ballast/evaluate.h"
#include "error_message.h"
#include "file_bytes.h"
#include "fixed_recipe.h"
#include "model_runs.h"
#include "temporary_directory.h"
#include "tiny_model.h"
#include "with_threads.h"

namespace ballast {
namespace {

using nlohmann::json;
using test::Contains;
using test::error_message;
using test::golden_model;
using test::TemporaryDirectory;

std::filesystem::path expected_of(const char* name) {
  return golden_model(name) / "expected.safetensors";
}

/// An expected.safetensors with ids of 64 bits and logits in F32.
std::string expected_bytes(const std::vector<std::int64_t>& ids, const Shape& ids_shape,
                           const std::vector<float>& logits, const Shape& logits_shape) {
  const std::size_t split = ids.size() * sizeof ids[0];
  const json header = {
      {"input_ids", {{"dtype", "I64"}, {"shape", ids_shape}, {"data_offsets", {0, split}}}},
      {"logits",
       {{"dtype", "F32"}, {"shape", logits_shape}, {"data_offsets", {split, split + logits.size() * sizeof(float)}}}}};
  return test::safetensors_bytes(
      header.dump(), std::string(reinterpret_cast<const char*>(ids.data()), split) +
                         std::string(reinterpret_cast<const char*>(logits.data()), logits.size() * sizeof(float)));
}

void check_met(const std::filesystem::path& model, const std::string& expected) {
  CAPTURE(model.string());
  const Verification result = verify(model, golden_model(expected) / "expected.safetensors");
  CHECK(result.relative_error <= 1e-4);
  CHECK(result.max_abs_error > 0);
  CHECK(result.kl_mean <= 1e-6);
  CHECK(result.top1_agreement == 1.0);
  CHECK(result.ok);
}

TEST_CASE("verify accepts the logits of transformers") {
  for (const std::string& name : test::golden_names()) check_met(golden_model(name), name);
  for (const std::string name : {"llama", "qwen3", "gpt2"}) check_met(golden_model(name + ".gguf"), name);
}

TEST_CASE("verify accepts the logits of transformers after the exact passes") {
  for (const std::string& name : test::golden_names()) {
    const TemporaryDirectory directory;
    ConvertOptions options;
    options.recipe = recipe_for_scheme("f32");
    convert(golden_model(name), directory / name, options);
    check_met(directory / name, name);
  }
}

TEST_CASE("a rounded model fails at a small tolerance and passes at a large one") {
  const TemporaryDirectory directory;
  ConvertOptions options;
  options.recipe = test::fixed_recipe("w8a8");
  convert(golden_model("llama3"), directory / "out", options);
  const Verification strict = verify(directory / "out", expected_of("llama3"));
  CHECK(!strict.ok);
  CHECK(strict.relative_error > 1e-3);
  CHECK(strict.kl_mean > 0);
  CHECK(verify(directory / "out", expected_of("llama3"), 1.0).ok);
  const json text = json::parse(verification_json(strict));
  CHECK(text["ok"] == false);
  CHECK(text["relative_error"] == strict.relative_error);
  CHECK(text.size() == 5);
}

TEST_CASE("a wrong logit is reported, with its error relative to the spread of the expected logits") {
  const TemporaryDirectory directory;
  // A model that gives logit 10 for the next token and 0 for the others.
  const auto path = test::successor_model({1, 2, 3, 0}, 10).write(directory / "model");
  std::vector<float> logits(std::size_t{2} * 264);
  logits[1] = 10;
  logits[264 + 3] = 10;
  logits[264 + 100] = 0.5F;
  const std::string bytes = expected_bytes({0, 2}, {1, 2}, logits, {1, 2, 264});
  const Verification result = verify(path, test::write_file(directory / "e", bytes));
  double mean = 20.5 / 528;
  const double variance = (100 + 100 + 0.25) / 528 - mean * mean;
  CHECK(result.max_abs_error == doctest::Approx(0.5).epsilon(1e-3));
  CHECK(result.relative_error == doctest::Approx(0.5 / std::sqrt(variance)).epsilon(1e-3));
  CHECK(result.top1_agreement == 1.0);
}

TEST_CASE("the result does not depend on the number of threads") {
  const auto run = [] { return verify(golden_model("llama3"), expected_of("llama3")).max_abs_error; };
  CHECK(test::with_threads(1, run) == test::with_threads(2, run));
}

TEST_CASE("expected files of a wrong shape or type are refused") {
  const auto refusal = [](const std::string& bytes) {
    const TemporaryDirectory directory;
    return error_message([&] { verify(golden_model("llama"), test::write_file(directory / "e", bytes)); });
  };
  const std::vector<std::int64_t> ids = {1, 2};
  std::vector<float> logits(std::size_t{2} * 67);
  logits[0] = 1;
  CHECK(refusal(expected_bytes(ids, {1, 2}, logits, {1, 2, 67})) == "no error");
  CHECK(refusal(expected_bytes(ids, {2}, logits, {1, 2, 67})) ==
        Contains("input_ids: must be I64 or I32 [batch, tokens]"));
  CHECK(refusal(expected_bytes(ids, {2, 1}, logits, {1, 2, 67})) ==
        Contains("logits: has shape [1, 2, 67], the model gives [2, 1, 67]"));
  CHECK(refusal(expected_bytes(ids, {1, 2}, logits, {2, 67})) == Contains("logits: has shape [2, 67]"));
  CHECK(refusal(expected_bytes(ids, {1, 2}, std::vector<float>(std::size_t{2} * 66), {1, 2, 66})) ==
        Contains("logits: has shape [1, 2, 66], the model gives [1, 2, 67]"));
  CHECK(refusal(expected_bytes({}, {0, 2}, {}, {0, 2, 67})) == Contains("input_ids: is empty"));
  CHECK(refusal(expected_bytes({1, -2}, {1, 2}, logits, {1, 2, 67})) == Contains("input_ids: holds the id -2"));
  CHECK(refusal(expected_bytes({1, 1LL << 40}, {1, 2}, logits, {1, 2, 67})) == Contains("holds the id 1099511627776"));
  CHECK(refusal(expected_bytes({1, 67}, {1, 2}, logits, {1, 2, 67})) ==
        Contains("token 67: not in the model's vocabulary"));
  CHECK(refusal(expected_bytes(ids, {1, 2}, std::vector<float>(std::size_t{2} * 67, 4), {1, 2, 67})) ==
        Contains("logits: are all the same"));
  logits[5] = std::nanf("");
  CHECK(refusal(expected_bytes(ids, {1, 2}, logits, {1, 2, 67})) == Contains("logits"));
  CHECK(refusal("nonsense") == Contains("e: "));
  CHECK(error_message([] { verify(golden_model("llama"), golden_model("llama") / "model.safetensors"); }) ==
        Contains("has no tensor \"input_ids\""));
}

}  // namespace
}  // namespace ballast
