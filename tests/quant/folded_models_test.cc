// The exact passes on whole models of every architecture.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "ballast/convert.h"
#include "fixed_recipe.h"
#include "model/source/model_source.h"
#include "model_logits.h"
#include "model_runs.h"
#include "temporary_directory.h"
#include "tiny_model.h"

namespace ballast {
namespace {

using test::distance;
using test::golden_model;
using test::logits_of;
using test::TemporaryDirectory;

ConvertOptions default_passes() {
  ConvertOptions options;
  options.recipe = recipe_for_scheme("f32");
  return options;
}

ConvertOptions all_passes() {
  ConvertOptions options = default_passes();
  options.recipe.equalize = options.recipe.rotate_values = options.recipe.untie_head = true;
  return options;
}

ConvertOptions smoothed() {
  ConvertOptions options = default_passes();
  options.recipe.smooth = true;
  return options;
}

ConvertOptions rotated() {
  ConvertOptions options = all_passes();
  options.recipe.rotate = options.recipe.smooth = true;
  return options;
}

ModelSpec converted_spec(const std::string& name, const ConvertOptions& options) {
  const TemporaryDirectory directory;
  convert(golden_model(name), directory / "out", options);
  return model::ModelSource(directory / "out").spec();
}

TEST_CASE("all exact passes together preserve the logits of every architecture") {
  for (const std::string& name : test::golden_names()) {
    CAPTURE(name);
    const std::vector<float> expected = logits_of(golden_model(name));
    for (const ConvertOptions& options : {default_passes(), all_passes(), smoothed(), rotated()}) {
      const TemporaryDirectory directory;
      convert(golden_model(name), directory / "out", options);
      CHECK(distance(logits_of(directory / "out"), expected) <= 1e-5);
    }
  }
}

TEST_CASE("smoothed and rotated integers come to the sizes and types that were planned") {
  bool eight_bits = false;  // every second model; the choice does not matter
  for (const std::string& name : test::golden_names()) {
    CAPTURE(name);
    eight_bits = !eight_bits;
    ConvertOptions options;
    options.recipe = test::fixed_recipe(eight_bits ? "w8a8" : "w4a16");
    options.recipe.smooth = options.recipe.rotate = options.recipe.untie_head = true;
    const TemporaryDirectory directory;
    CHECK(convert(golden_model(name), directory / "out", options).bytes_after > 0);
  }
}

TEST_CASE("without the bias folds the gains of LayerNorms still fold exactly") {
  ConvertOptions options = all_passes();
  options.recipe.fold_biases = false;
  for (const char* name : {"gpt2", "gpt_neox"}) {
    CAPTURE(name);
    const TemporaryDirectory directory;
    convert(golden_model(name), directory / "out", options);
    CHECK(distance(logits_of(directory / "out"), logits_of(golden_model(name))) <= 1e-5);
  }
}

TEST_CASE("a converted model's description has the biases and norms that are left") {
  const ModelSpec gpt2 = converted_spec("gpt2", all_passes());
  CHECK(gpt2.norm.kind == NormSpec::Kind::kRms);
  CHECK(!gpt2.norm.bias);
  CHECK(!gpt2.biases.key);
  CHECK(!gpt2.biases.value);
  CHECK(gpt2.biases.query);
  CHECK(gpt2.biases.head);
  CHECK(!gpt2.tied_embeddings);

  const ModelSpec qwen2 = converted_spec("qwen2", default_passes());
  CHECK(qwen2.biases.key);
  CHECK(!qwen2.biases.value);
  CHECK(qwen2.biases.attention_output);
  CHECK(qwen2.tied_embeddings);

  const ModelSpec gated = converted_spec("qwen3_next", all_passes());
  CHECK(gated.biases.key);
  CHECK(gated.biases.value);
  CHECK(gated.norm.gain_offset == 0);
}

TEST_CASE("untying a head is reported with its bytes") {
  const TemporaryDirectory directory;
  const ConvertReport report = convert(golden_model("llama"), directory / "out", all_passes());
  const ModelSpec spec = model::ModelSource(golden_model("llama")).spec();
  REQUIRE(spec.tied_embeddings);
  CHECK(report.notes.front() == "untie_head: the head is a matrix of its own now and takes " +
                                    std::to_string(4 * spec.vocab_size * spec.hidden_size) + " bytes more");
  const ConvertReport untied = convert(golden_model("llama3"), directory / "other", all_passes());
  CHECK(!untied.notes.front().starts_with("untie_head"));
}

}  // namespace
}  // namespace ballast
