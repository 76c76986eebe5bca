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

TEST_CASE("verify accepts the scores of classifiers for padded batches and pairs") {
  const TemporaryDirectory directory;
  for (const std::string& name : test::classifier_names()) {
    CAPTURE(name);
    const std::filesystem::path golden = test::golden_classifier(name);
    const std::filesystem::path folded = directory / name;
    convert(golden, folded, {.recipe = test::fixed_recipe("f32")});
    for (const std::filesystem::path& path : {golden, folded}) {
      const Verification result = verify(path, golden / "expected.safetensors");
      CHECK(result.relative_error <= 1e-5);
      CHECK(result.max_abs_error > 0);
      CHECK_FALSE(result.of_logits);
    }
    if (name == "qwen2_texts") continue;  // a decoder's calibration needs texts
    convert(golden, directory / (name + "-w8a8"), {.recipe = test::fixed_recipe("w8a8")});
    const Verification rounded = verify(directory / (name + "-w8a8"), golden / "expected.safetensors", 1.0);
    CHECK(rounded.relative_error > 1e-4);
    CHECK(rounded.ok);
  }
}

TEST_CASE("verify accepts the logits of decoders after an encoder") {
  const TemporaryDirectory directory;
  for (const std::string& name : test::translator_names()) {
    CAPTURE(name);
    const std::filesystem::path golden = test::golden_translator(name);
    const std::filesystem::path folded = directory / name;
    convert(golden, folded, {.recipe = test::fixed_recipe("f32")});
    for (const std::filesystem::path& path : {golden, folded}) {
      const Verification result = verify(path, golden / "expected.safetensors");
      CHECK(result.relative_error <= 1e-5);
      CHECK(result.max_abs_error > 0);
      CHECK(result.top1_agreement == 1.0);
    }
    convert(golden, directory / (name + "-w8a8"), {.recipe = test::fixed_recipe("w8a8")});
    const Verification rounded = verify(directory / (name + "-w8a8"), golden / "expected.safetensors", 1.0);
    CHECK(rounded.relative_error > 1e-4);
    CHECK(rounded.kl_mean < 0.01);
  }
}

TEST_CASE("decoders after an encoder keep their logits with a head of their own") {
  const TemporaryDirectory directory;
  for (const std::string& name : test::translator_names()) {
    CAPTURE(name);
    test::TinyModel model = test::read_model(test::golden_translator(name));
    model.config.erase("scale_decoder_outputs");  // older checkpoints of T5 lack it
    Recipe recipe = test::fixed_recipe("f32");
    recipe.untie_head = true;
    convert(model.write(directory / name), directory / (name + "-untied"), {.recipe = recipe});
    CHECK(
        verify(directory / (name + "-untied"), test::golden_translator(name) / "expected.safetensors").relative_error <=
        1e-5);
  }
}

TEST_CASE("formats of a decoder and its encoder are chosen for a size") {
  const TemporaryDirectory directory;
  const std::filesystem::path golden = test::golden_translator("t5");
  ConvertOptions options;
  options.recipe = recipe_for_scheme("w4a8");  // at its natural size
  options.calibration.samples = 4;
  options.calibration.length = 16;
  const ConvertReport report = convert(golden, directory / "sized", options);
  CHECK(report.divergence);
  CHECK(verify(directory / "sized", golden / "expected.safetensors", 10).kl_mean < 0.5);
}

TEST_CASE("models with an encoder are not written for other programs") {
  const TemporaryDirectory directory;
  for (const OutputFormat format : {OutputFormat::kGguf, OutputFormat::kGptq, OutputFormat::kAwq, OutputFormat::kMlx,
                                    OutputFormat::kCompressedTensors}) {
    ConvertOptions options;
    options.recipe = recipe_for_scheme("w4a16");
    options.output_format = format;
    const auto refused = [&] { convert(test::golden_translator("bart"), directory / "other", options); };
    CHECK(error_message(refused) == Contains("can be written yet"));
  }
}

TEST_CASE("verify refuses source texts that are not those of the decoder's texts") {
  const TemporaryDirectory directory;
  const std::filesystem::path golden = test::golden_translator("bart");
  const std::vector<std::int64_t> ids = {3, 4};
  const auto refusal = [&](const json& header) {
    const std::string values(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof ids[0]);
    test::write_file(directory / "expected.safetensors", test::safetensors_bytes(header.dump(), values));
    return error_message([&] { verify(golden, directory / "expected.safetensors"); });
  };
  const json of_two = {{"dtype", "I64"}, {"shape", {2, 1}}, {"data_offsets", {0, 16}}};
  CHECK(refusal({{"input_ids", of_two}}) == Contains("decoder_input_ids"));
  CHECK(refusal({{"decoder_input_ids", of_two}}) == Contains("input_ids"));
}

TEST_CASE("verify refuses padding before a text and types that the model does not have") {
  const TemporaryDirectory directory;
  const std::filesystem::path golden = test::golden_classifier("bert_texts");
  const auto refusal = [&](const std::string& tensor, const std::vector<std::int64_t>& values) {
    const json header = {{"input_ids", {{"dtype", "I64"}, {"shape", {1, 2}}, {"data_offsets", {0, 16}}}},
                         {"logits", {{"dtype", "F32"}, {"shape", {1, 3}}, {"data_offsets", {16, 28}}}},
                         {tensor, {{"dtype", "I64"}, {"shape", {1, 2}}, {"data_offsets", {28, 44}}}}};
    const std::vector<std::int64_t> ids = {1, 2};
    const std::vector<float> logits = {0, 1, 2};
    const auto bytes_of = [](const auto& list) {
      return std::string(reinterpret_cast<const char*>(list.data()), list.size() * sizeof list[0]);
    };
    test::write_file(directory / "expected.safetensors",
                     test::safetensors_bytes(header.dump(), bytes_of(ids) + bytes_of(logits) + bytes_of(values)));
    return error_message([&] { verify(golden, directory / "expected.safetensors"); });
  };
  CHECK(refusal("attention_mask", {0, 1}) == Contains("only padding after a text is supported"));
  CHECK(refusal("attention_mask", {1, 2}) == Contains("holds the number 2"));
  CHECK(refusal("token_type_ids", {0, 2}) == Contains("token type 2: the model has 2 only"));
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
  CHECK(refusal(expected_bytes({1, -2}, {1, 2}, logits, {1, 2, 67})) == Contains("input_ids: holds the number -2"));
  CHECK(refusal(expected_bytes({1, 1LL << 40}, {1, 2}, logits, {1, 2, 67})) ==
        Contains("holds the number 1099511627776"));
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
