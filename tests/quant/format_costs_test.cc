// Compares the expected costs of formats with measured ones.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "ballast/calibrate.h"
#include "ballast/convert.h"
#include "kernels/logits.h"
#include "model_logits.h"
#include "quant/conversion/format_search.h"
#include "quant/write/ballast_format.h"
#include "temporary_directory.h"
#include "tiny_model.h"

namespace ballast::quant {
namespace {

using test::TemporaryDirectory;
namespace fs = std::filesystem;

constexpr std::size_t kSamples = 8;
constexpr std::size_t kSampleLength = 32;

/// Writes a model whose matrices differ widely in sensitivity.
fs::path uneven_model(const fs::path& directory, std::size_t layers) {
  test::TinyModel model = test::random_model(
      {.hidden = 64, .layers = static_cast<std::int64_t>(layers), .heads = 4, .head_size = 16, .mlp = 96});
  for (auto& [name, tensor] : model.tensors) {
    const float scale = name.find("0.self_attn.v_proj") != std::string::npos   ? 3.0F
                        : name.find("1.mlp.down_proj") != std::string::npos    ? 2.5F
                        : name.find("1.self_attn.q_proj") != std::string::npos ? 0.1F
                        : name.find("2.mlp.up_proj") != std::string::npos      ? 0.2F
                        : name.find("2.self_attn.o_proj") != std::string::npos ? 0.3F
                                                                               : 1.0F;
    for (float& value : tensor.values) value *= scale;
  }
  return model.write(directory);
}

/// Returns a recipe that only rounds, to the best grids, the matrices that its overrides name.
Recipe plain_recipe(const std::string& scheme) {
  Recipe recipe = recipe_for_scheme(scheme);
  recipe.fold_norms = recipe.fold_biases = recipe.smooth = false;
  recipe.rounding = Recipe::Rounding::kScaleSearch;
  recipe.outlier_fraction = 0;
  return recipe;
}

struct Cost {
  std::string matrix;
  WeightFormat format;
  double predicted = 0;
  double measured = 0;
};

/// Returns the mean divergence over the second half of each sample, which the measurement of formats uses.
double divergence(const model::Model& original, const model::Model& changed, const Statistics& statistics) {
  const std::size_t vocab = original.spec().vocab_size;
  double sum = 0;
  std::size_t positions = 0;
  for (std::size_t sample = 0; sample < kSamples; ++sample) {
    const std::vector<int> ids(statistics.tokens.begin() + static_cast<std::ptrdiff_t>(sample * kSampleLength),
                               statistics.tokens.begin() + static_cast<std::ptrdiff_t>((sample + 1) * kSampleLength));
    const auto logits = [&](const model::Model& model) {
      model::SequenceState state = model.make_exact_state(kSampleLength);
      return test::run_tokens(model, ids, state);
    };
    const std::vector<float> expected = logits(original);
    const std::vector<float> got = logits(changed);
    for (std::size_t i = kSampleLength / 2; i < kSampleLength; ++i, ++positions) {
      sum += kernels::kl_divergence(expected.data() + i * vocab, got.data() + i * vocab, vocab);
    }
  }
  return sum / static_cast<double>(positions);
}

/// A calibrated model at `path`.
struct Calibrated {
  fs::path path;
  fs::path file;
  Statistics statistics;

  explicit Calibrated(const fs::path& model)
      : path(model),
        file(model.string() + ".stats"),
        statistics(calibrate(model, {.samples = kSamples, .length = kSampleLength})) {
    save_statistics(statistics, file, false);
  }

  ConvertOptions options(Recipe recipe) const {
    ConvertOptions options{.recipe = std::move(recipe), .statistics = file};
    options.probe_samples = kSamples;
    options.replace = true;
    return options;
  }

  std::vector<InputChoice> weigh(Recipe recipe) const {
    recipe.target_bytes = 1'000'000;
    const ConvertOptions chosen = options(std::move(recipe));
    const BallastFormat format(chosen.recipe);
    ConversionInputs inputs(std::make_shared<const model::ModelSource>(path), chosen, format);
    inputs.make_plan();
    inputs.gather(path.parent_path() / "none", {});
    const Progress progress;
    StepReporter steps(progress);
    return FormatSearch(inputs, steps).weighed().choices;
  }

  /// Returns the divergence that a conversion by a recipe causes.
  double measure(const Recipe& recipe) const {
    const fs::path converted = path.string() + "-out";
    convert(path, converted, options(recipe));
    return divergence(model::Model(path), model::Model(converted), statistics);
  }
};

/// Returns the costs of every `step`th matrix alone in the finest, a middle and the coarsest format.
std::vector<Cost> costs_of(std::size_t layers, std::size_t step) {
  const TemporaryDirectory directory;
  const Calibrated model(uneven_model(directory / "model", layers));
  std::vector<Cost> costs;
  std::size_t matrices = 0;
  for (const InputChoice& input : model.weigh(plain_recipe("w4a16"))) {
    for (const MatrixChoice& matrix : input.matrices) {
      if (matrices++ % step != 0) continue;
      for (const FormatOption& option : matrix.options) {
        const std::string name = format_name(option.format);
        if (name != "nl4-g128-s8" && name != "nl5-g32-s8" && name != "int8-g32-s8") continue;
        costs.push_back({.matrix = matrix.name, .format = option.format, .predicted = option.cost});
      }
    }
  }
  for (Cost& cost : costs) {
    Recipe recipe = plain_recipe("f32");
    recipe.overrides = {{"^" + cost.matrix + "$", cost.format}};
    cost.measured = model.measure(recipe);
  }
  return costs;
}

/// Returns Spearman's rank correlation.
double rank_correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const auto ranks = [](const std::vector<double>& values) {
    std::vector<double> result;
    for (const double value : values) {
      const auto below = std::ranges::count_if(values, [&](double other) { return other < value; });
      const auto equal = std::ranges::count(values, value);
      result.push_back(static_cast<double>(below) + 0.5 * static_cast<double>(equal));
    }
    return result;
  };
  const std::vector<double> ranks_a = ranks(a);
  const std::vector<double> ranks_b = ranks(b);
  const double mean = 0.5 * static_cast<double>(a.size());
  double ab = 0;
  double aa = 0;
  double bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += (ranks_a[i] - mean) * (ranks_b[i] - mean);
    aa += (ranks_a[i] - mean) * (ranks_a[i] - mean);
    bb += (ranks_b[i] - mean) * (ranks_b[i] - mean);
  }
  return aa == 0 || bb == 0 ? 0 : ab / std::sqrt(aa * bb);
}

TEST_CASE("the expected cost of a matrix in a format ranks like the measured cost") {
  const std::vector<Cost> costs = costs_of(3, 1);
  REQUIRE(costs.size() == 3 * (2 + 3 * 7));
  std::vector<double> ratios;
  for (const char* name : {"nl4-g128-s8", "nl5-g32-s8", "int8-g32-s8"}) {
    CAPTURE(name);
    std::vector<double> predicted;
    std::vector<double> measured;
    for (const Cost& cost : costs) {
      if (format_name(cost.format) != name) continue;
      CAPTURE(cost.matrix);
      CAPTURE(cost.predicted);
      CAPTURE(cost.measured);
      MESSAGE(name << " " << cost.matrix << " " << cost.predicted << " " << cost.measured << " ratio "
                   << cost.predicted / cost.measured);
      predicted.push_back(cost.predicted);
      measured.push_back(cost.measured);
      ratios.push_back(cost.predicted / cost.measured);
    }
    MESSAGE("rank correlation " << rank_correlation(predicted, measured));
    CHECK(rank_correlation(predicted, measured) > 0.9);
  }
}

TEST_CASE("expected costs in a deep model, whose blocks are measured in groups, rank like the measured costs") {
  std::vector<double> predicted;
  std::vector<double> measured;
  for (const Cost& cost : costs_of(20, 9)) {
    if (format_name(cost.format) != "nl5-g32-s8") continue;
    predicted.push_back(cost.predicted);
    measured.push_back(cost.measured);
  }
  REQUIRE(predicted.size() == 16);
  CHECK(rank_correlation(predicted, measured) > 0.8);
}

TEST_CASE("drift correction lowers the expected cost of blocks' weights, not that of tables and INT8 activations") {
  const TemporaryDirectory directory;
  const Calibrated model(uneven_model(directory / "model", 3));
  Recipe recipe = plain_recipe("w4a8");
  recipe.rounding = Recipe::Rounding::kGptq;
  recipe.correct_drift = false;
  const std::vector<InputChoice> plain = model.weigh(recipe);
  recipe.correct_drift = true;
  const std::vector<InputChoice> corrected = model.weigh(recipe);
  REQUIRE(corrected.size() == plain.size());
  const double share = corrected[1].matrices[0].options[0].cost / plain[1].matrices[0].options[0].cost;
  CHECK(share > 0.5);
  CHECK(share < 0.9);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    for (std::size_t m = 0; m < plain[i].matrices.size(); ++m) {
      CAPTURE(plain[i].matrices[m].name);
      const bool of_block = plain[i].matrices[m].name.starts_with("model.layers.");
      for (std::size_t o = 0; o < plain[i].matrices[m].options.size(); ++o) {
        const FormatOption& before = plain[i].matrices[m].options[o];
        const FormatOption& after = corrected[i].matrices[m].options[o];
        CHECK(after.cost == doctest::Approx((of_block ? share : 1) * before.cost).epsilon(1e-5));
        CHECK(after.activation_cost == before.activation_cost);
      }
    }
  }
}

TEST_CASE("the expected cost of INT8 inputs of the head is the measured one, whether or not the head is tied") {
  for (const bool tied : {false, true}) {
    CAPTURE(tied);
    const TemporaryDirectory directory;
    test::TinyModel tiny = test::random_model({.hidden = 64, .heads = 4, .head_size = 16, .mlp = 96});
    const std::string head = tied ? "model.embed_tokens" : "lm_head";
    if (tied) {
      tiny.config["tie_word_embeddings"] = true;
      tiny.tensors.erase("lm_head.weight");
    }
    // One channel is large and has small weights: few steps are left for the other values of its group.
    constexpr float kFactor = 30;
    tiny.at("model.norm.weight").values[3] *= kFactor;
    std::vector<float>& weights = tiny.at(head + ".weight").values;
    for (std::size_t i = 3; i < weights.size(); i += 64) weights[i] /= kFactor;
    const Calibrated model(tiny.write(directory / "model"));

    Recipe recipe = plain_recipe("w4a8");
    recipe.int16_activations_at_end = false;
    double weights_alone = -1;
    double both = -1;
    for (const InputChoice& input : model.weigh(recipe)) {
      for (const MatrixChoice& matrix : input.matrices) {
        if (matrix.name != head) continue;
        for (const FormatOption& option : matrix.options) {
          if (format_name(option.format) != "int8-g32-s8") continue;
          weights_alone = option.cost;
          both = option.cost + option.activation_cost;
        }
      }
    }
    recipe = plain_recipe("f32");
    recipe.activations = ActivationType::kInt8;
    recipe.activation_groups = true;
    recipe.int16_activations_at_end = false;
    recipe.overrides = {{"^" + head + "$", parse_format("int8-g32-s8")}};
    const double measured = model.measure(recipe);
    CAPTURE(weights_alone);
    CAPTURE(both);
    CAPTURE(measured);
    CHECK(weights_alone < 0.5 * measured);
    CHECK(both > 0.5 * measured);
    CHECK(both < 2 * measured);
  }
}

}  // namespace
}  // namespace ballast::quant
