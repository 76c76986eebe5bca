// A model with an adapter beside it computes the same as the original with the adapter merged into its weights, also if
// the model was folded.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "ballast/convert.h"
#include "ballast/model.h"
#include "ballast/recipe.h"
#include "error_message.h"
#include "temporary_directory.h"
#include "tiny_adapter.h"
#include "tiny_model.h"

namespace ballast {
namespace {

namespace fs = std::filesystem;

using test::Contains;
using test::error_message;

const std::vector<int> kText = {1, 20, 3, 40, 5, 60, 7, 33, 9, 12};

/// Returns a model with biases of queries, keys and values, and norm gains that differ.
test::TinyModel biased_model(const test::TinyModelOptions& options = {}) {
  test::TinyModel model = test::random_model(options);
  model.config["model_type"] = "qwen2";
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (const auto& [name, weight] : test::TinyModel(model).tensors) {
    if (name.ends_with("norm.weight")) {
      for (float& gain : model.at(name).values) gain = 1 + 0.3F * normal(random);
    }
    for (const std::string part : {"q_proj", "k_proj", "v_proj"}) {
      if (!name.ends_with(part + ".weight")) continue;
      Tensor& bias = model.tensors[name.substr(0, name.size() - std::string("weight").size()) + "bias"];
      bias.shape = {weight.shape[0]};
      for (std::int64_t i = 0; i < weight.shape[0]; ++i) bias.values.push_back(normal(random));
    }
  }
  return model;
}

/// A model of that kind, and an adapter whose folder is in its own.
struct AdaptedModel {
  test::TemporaryDirectory directory;
  fs::path original, adapter;
  std::vector<float> expected;

  AdaptedModel() {
    const test::TinyModel model = biased_model();
    original = model.write(directory / "original");
    adapter = test::random_adapter(model, 1).write(original / "adapter");
    expected = Model(adapter).logits(kText).values;
  }

  fs::path converted(const Recipe& recipe, const std::string& name) const {
    ConvertOptions options;
    options.recipe = recipe;
    options.calibration.samples = 2;
    options.calibration.length = 16;
    convert(original, directory / name, options);
    return directory / name;
  }
};

double spread_error(const std::vector<float>& actual, const std::vector<float>& expected) {
  double largest = 0, mean = 0, square = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::fabs(double{actual[i]} - double{expected[i]}));
    mean += double{expected[i]} / static_cast<double>(expected.size());
    square += double{expected[i]} * double{expected[i]} / static_cast<double>(expected.size());
  }
  return largest / std::sqrt(square - mean * mean);
}

double error_with_adapter(const fs::path& path, const AdaptedModel& adapted) {
  const Model model(path);
  return spread_error(model.logits(kText, model.load_adapter({.path = adapted.adapter})).values, adapted.expected);
}

TEST_CASE("an adapter beside the original, or beside a folded, smoothed and rotated model, is one in the weights") {
  const AdaptedModel adapted;
  CHECK(error_with_adapter(adapted.original, adapted) < 1e-5);
  Recipe recipe = recipe_for_scheme("f32");
  recipe.fold_biases = recipe.fold_norms = false;
  CHECK(error_with_adapter(adapted.converted(recipe, "plain"), adapted) < 1e-5);
  recipe.fold_biases = recipe.fold_norms = true;
  CHECK(error_with_adapter(adapted.converted(recipe, "folded"), adapted) < 1e-5);
  recipe.smooth = recipe.equalize = true;
  CHECK(error_with_adapter(adapted.converted(recipe, "smoothed"), adapted) < 1e-5);
  recipe.rotate = recipe.rotate_values = true;
  CHECK(error_with_adapter(adapted.converted(recipe, "rotated"), adapted) < 1e-5);
  const Model model(adapted.original);
  CHECK(spread_error(model.logits(kText).values, adapted.expected) > 0.1);
  const Adapter half = model.load_adapter({.path = adapted.adapter, .scale = 0.5});
  CHECK(spread_error(model.logits(kText, half).values, adapted.expected) > 0.01);
}

TEST_CASE("the bias that a fold moved changes with the adapter") {
  // Without the constant input of the output projection, the folded value bias would lack what the adapter makes of it.
  test::TinyModel model = biased_model();
  for (float& value : model.at("model.layers.0.self_attn.v_proj.bias").values) value += 3;
  const test::TemporaryDirectory directory;
  model.write(directory / "original");
  test::TinyAdapter adapter;
  adapter.add("model.layers.0.self_attn.o_proj", 32, 32);
  const fs::path path = adapter.write(directory / "original" / "adapter");
  ConvertOptions options;
  options.recipe = recipe_for_scheme("f32");
  options.recipe.smooth = false;
  convert(directory / "original", directory / "folded", options);
  const Model folded(directory / "folded");
  CHECK(spread_error(folded.logits(kText, folded.load_adapter({.path = path})).values,
                     Model(path).logits(kText).values) < 1e-5);
}

TEST_CASE("models and adapters that do not go together are refused") {
  const AdaptedModel adapted;
  const fs::path written = adapted.converted(recipe_for_scheme("f32"), "written");
  const auto load = [&](const fs::path& model, const fs::path& adapter) {
    return error_message([&] { Model(model).load_adapter({.path = adapter}); });
  };
  fs::remove(written / "folds.safetensors");
  CHECK(load(written, adapted.adapter) == Contains("has no folds.safetensors"));
  CHECK(load(adapted.original, adapted.directory / "missing") == Contains("adapter_config.json"));
  const test::TinyModel wider = test::random_model({.hidden = 64});
  CHECK(load(wider.write(adapted.directory / "wider"), adapted.adapter) == Contains("which cannot be added"));
  const test::TinyModel shorter = test::random_model({.layers = 1});
  CHECK(load(shorter.write(adapted.directory / "shorter"), adapted.adapter) ==
        Contains("which the model does not have"));
}

}  // namespace
}  // namespace ballast
