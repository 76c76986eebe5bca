#include "quant/measure/head_input.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "ballast/convert.h"
#include "model/model.h"
#include "model_logits.h"
#include "quant/block/runnable_block.h"
#include "temporary_directory.h"
#include "tiny_model.h"

namespace ballast::quant {
namespace {

constexpr std::size_t kTokensOfSample = 8;
constexpr std::size_t kMeasuredSamples = 3;

/// Returns the input of a model's head for some tokens, [tokens][hidden].
std::vector<float> head_rows(const model::Model& model, const std::vector<int>& ids) {
  model::Workspace workspace;
  std::vector<float> rows;
  model::LinearScratch scratch;
  for (std::size_t sample = 0; sample < kMeasuredSamples; ++sample) {
    model::SequenceState state = model.make_exact_state(kTokensOfSample);
    const model::SequenceTokens tokens = {.tokens = std::span(ids).subspan(sample * kTokensOfSample, kTokensOfSample),
                                          .state = &state,
                                          .wanted = kTokensOfSample};
    const std::span<const float> hidden = model.forward({&tokens, 1}, workspace);
    rows.resize(rows.size() + hidden.size());
    const model::EmbeddingAndHead outer(model.spec(), model.source().parts());
    outer.preparation().prepare(hidden.data(), kTokensOfSample, rows.data() + rows.size() - hidden.size(), scratch);
  }
  return rows;
}

TEST_CASE("the head's input is measured after the last block, and a tied embedding gets a share for the table") {
  for (const std::string golden : {"llama3", "gpt2", "bert"}) {  // the last has a transform in front of its head
    CAPTURE(golden);
    const model::Model model(test::golden_model(golden), model::FloatLayout::kRows);
    const ModelSpec& spec = model.spec();
    std::vector<int> ids(kMeasuredSamples * kTokensOfSample);
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int>(i * 7 % 31);
    const WorkingBlockLoader loader(model.source(), nullptr, {});
    samples::BlockRunner runner(spec, kTokensOfSample);
    const WorkingBlock front = loader.load(0, true);
    runner.embed(runnable_embedding(front, spec, run_with_int16), {ids, kTokensOfSample});
    for (std::size_t layer = 0; layer < spec.layers.size(); ++layer) runner.advance(model.source().block(layer), layer);
    const WorkingBlock back = loader.load(loader.count() - 1, true);
    const HeadInput measured = measure_head_input(spec, back, runner, {.samples = kMeasuredSamples}, true);
    REQUIRE(measured.peaks != nullptr);
    CHECK_FALSE(measure_head_input(spec, back, runner, {.samples = kMeasuredSamples}, false).peaks);

    const std::vector<float> rows = head_rows(model, ids);
    const std::size_t size = spec.hidden_size;
    const Hessian& moments = *measured.moments;
    REQUIRE(moments.cols == size);
    CHECK(moments.rows == ids.size());
    std::vector<double> expected(size * size);
    double trace = 0;
    for (std::size_t t = 0; t < ids.size(); ++t) {
      const float* row = rows.data() + t * size;
      for (std::size_t i = 0; i < size * size; ++i) expected[i] += double{row[i / size]} * double{row[i % size]};
      for (std::size_t c = 0; c < size; ++c) trace += std::pow(double{row[c]}, 2);
    }
    const double mean = trace / static_cast<double>(size);
    for (std::size_t c = 0; spec.tied_embeddings && c < size; ++c) expected[c * (size + 1)] += 0.1 * mean;
    for (std::size_t i = 0; i < size * size; ++i) {
      CHECK(double{moments.values[i]} == doctest::Approx(expected[i]).epsilon(1e-4).scale(mean));
    }
  }
}

/// Returns a model whose blocks pass on their inputs, which are close to a few directions.
test::TinyModel lookup_model(bool tied) {
  test::TinyModel model = test::random_model({.hidden = 64, .layers = 1, .weights = 0});
  std::mt19937_64 engine(5);
  std::normal_distribution<float> normal;
  constexpr std::size_t kDirections = 6;
  std::vector<float> directions(kDirections * 64);
  for (float& value : directions) value = normal(engine);
  std::vector<float>& table = model.at("model.embed_tokens.weight").values;
  for (std::size_t r = 0; r < table.size(); r += 64) {
    for (std::size_t c = 0; c < 64; ++c) table[r + c] = 0.3F * normal(engine);
    for (std::size_t d = 0; d < kDirections; ++d) {
      const float part = normal(engine);
      for (std::size_t c = 0; c < 64; ++c) table[r + c] += part * directions[d * 64 + c];
    }
  }
  model.config["tie_word_embeddings"] = tied;
  if (tied) model.tensors.erase("lm_head.weight");
  return model;
}

TEST_CASE("a head is rounded for its input, tied or not, with chosen or given formats") {
  for (const bool tied : {false, true}) {
    const test::TemporaryDirectory directory;
    const auto original = lookup_model(tied).write(directory / "model");
    const auto error = [&](Recipe::Rounding rounding, bool chosen) {
      ConvertOptions options{.recipe = recipe_for_scheme("f32")};
      options.recipe.rounding = rounding;
      (tied ? options.recipe.embedding : options.recipe.head) = parse_format("int4-g32-asym");
      if (chosen) {  // formats of the blocks' matrices
        options.recipe.linears = parse_format("int8-g64");
        options.recipe.overrides = {{tied ? "embed_tokens" : "lm_head", parse_format("int4-g32-asym")}};
        options.recipe.target_bytes = 400'000;
      }
      options.calibration.samples = 16;
      options.calibration.length = 32;
      options.replace = true;
      convert(original, directory / "out", options);
      const auto logits = [](const std::filesystem::path& path) {
        const model::Model model(path);
        std::vector<int> ids(64);
        for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int>(i * 37 % 257);
        model::SequenceState state = model.make_exact_state(ids.size());
        return test::run_tokens(model, ids, state);
      };
      const std::vector<float> expected = logits(original);
      const std::vector<float> got = logits(directory / "out");
      double sum = 0;
      for (std::size_t i = 0; i < got.size(); ++i) sum += std::pow(double{got[i]} - double{expected[i]}, 2);
      return sum;
    };
    for (const bool chosen : {false, true}) {
      CAPTURE(tied);
      CAPTURE(chosen);
      CHECK(error(Recipe::Rounding::kGptq, chosen) < 0.6 * error(Recipe::Rounding::kScaleSearch, chosen));
    }
  }
}

}  // namespace
}  // namespace ballast::quant
