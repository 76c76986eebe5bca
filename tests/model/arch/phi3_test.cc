#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "described.h"
#include "family_model.h"
#include "layers.h"
#include "model/arch/rope_config.h"

namespace ballast::model::phi3_test {

using nlohmann::json;
using test::described;
using test::with_field;

const json kConfig = {{"model_type", "phi3"},     {"num_hidden_layers", 2},  {"hidden_size", 32},
                      {"num_attention_heads", 4}, {"intermediate_size", 40}, {"vocab_size", 10}};

json stretched() {
  json config = with_field(kConfig, "max_position_embeddings", 131072);
  config["original_max_position_embeddings"] = 4096;
  config["partial_rotary_factor"] = 0.75;
  config["rope_scaling"] = {{"type", "longrope"}, {"short_factor", {1.0, 1.5, 2.0}}, {"long_factor", {4.0, 5.0, 6.0}}};
  return config;
}

std::string refusal_of_scaling(const char* field, const json& value) {
  json config = stretched();
  config["rope_scaling"][field] = value;
  return test::error_message([&] { described(config); });
}

TEST_CASE("Phi-3 has no biases, a window in every layer or none, and a context of 4,096 by default") {
  const ModelSpec spec = described(kConfig);
  CHECK(spec.layout == BlockLayout::kPreNorm);
  CHECK(spec.norm.epsilon == 1e-5);
  CHECK(!spec.biases.query);
  CHECK(test::mlp_of(spec).gated);
  CHECK(test::attention_of(spec).kv_heads == 4);
  CHECK(test::attention_of(spec).window == 0);
  CHECK(spec.context_length == 4096);
  CHECK(described(with_field(kConfig, "sliding_window", 9)).layers[1].attention()->window == 9);
}

TEST_CASE("LongRoPE divides each pair's frequency, scales the amplitude and holds up to the original context") {
  for (const char* type : {"longrope", "su", "yarn"}) {
    json config = stretched();
    config["rope_scaling"]["type"] = type;
    const ModelSpec spec = described(config);
    const RopeSpec& rope = *test::attention_of(spec).rope;
    CHECK(rope.scaling == RopeSpec::Scaling::kLongRope);
    CHECK(rope.factor == 32.0);
    CHECK(rope.amplitude == doctest::Approx(std::sqrt(1 + std::log(32.0) / std::log(4096.0))));
    CHECK(spec.context_length == 4096);
    CHECK(spec.long_context == 131072);
    CHECK(rope.long_factors == std::vector<double>{4.0, 5.0, 6.0});
    const std::vector<double> frequencies = rope_frequencies(rope);
    REQUIRE(frequencies.size() == 3);
    CHECK(frequencies[0] == 1.0);
    CHECK(frequencies[1] == doctest::Approx(std::pow(10000.0, -1.0 / 3) / 1.5));
    CHECK(frequencies[2] == doctest::Approx(std::pow(10000.0, -2.0 / 3) / 2.0));
  }
  json config = stretched();
  config["rope_scaling"]["attention_factor"] = 1.25;
  CHECK(test::attention_of(described(config)).rope->amplitude == 1.25);
  config = with_field(stretched(), "max_position_embeddings", 4096);  // not stretched: only the short factors apply
  CHECK(test::attention_of(described(config)).rope->amplitude == 1.0);
  CHECK(described(config).long_context == 0);
  config["rope_scaling"].erase("long_factor");
  CHECK(test::attention_of(described(config)).rope->long_factors.empty());
}

TEST_CASE("LongRoPE with missing or absurd factors, and other ways to stretch, are refused by field") {
  CHECK(refusal_of_scaling("short_factor", nullptr) == "config.json: rope_scaling.short_factor: missing");
  CHECK(refusal_of_scaling("long_factor", nullptr) == "config.json: rope_scaling.long_factor: missing");
  CHECK(refusal_of_scaling("short_factor", {1.0, 2.0}) ==
        "config.json: rope_scaling.short_factor: has 2 entries for 3 pairs of channels that rotate");
  CHECK(refusal_of_scaling("short_factor", {1.0, 0.0, 2.0}) ==
        "config.json: rope_scaling.short_factor[1]: must be positive");
  CHECK(refusal_of_scaling("attention_factor", 0) == "config.json: rope_scaling.attention_factor: must be positive");
  CHECK(refusal_of_scaling("type", "linear") ==
        "config.json: rope_scaling.rope_type: 'linear' is not supported; supported: default, longrope");
  CHECK(test::refusal_of_field(stretched(), "original_max_position_embeddings", 1) ==
        "config.json: rope_scaling: needs an original_max_position_embeddings above 1");
}

/// A model whose context of 8 tokens can be extended to 32, with random weights.
json small_config() {
  json config = with_field(kConfig, "max_position_embeddings", 32);
  config["original_max_position_embeddings"] = 8;
  config["rope_scaling"] = {
      {"type", "longrope"}, {"short_factor", {1.0, 1.5, 2.0, 2.5}}, {"long_factor", {4.0, 5.0, 6.0, 7.0}}};
  return config;
}

/// Returns the error of the model's logits against the reference with these factors.
double error_with_factors(const Model& model, const std::vector<double>& factors) {
  ModelSpec spec = described(small_config());
  for_each_attention(spec, [&](AttentionSpec& attention) { attention.rope->pair_factors = factors; });
  const std::vector<double> expected =
      test::ReferenceModel(spec, test::read_tensors(model.source())).logits(test::kFamilyIds);
  return std::max(test::relative_error(test::run_at_once(model, test::kFamilyIds), expected),
                  test::relative_error(test::run_in_pieces(model, test::kFamilyIds, 1), expected));
}

TEST_CASE("a model uses LongRoPE's long factors for all tokens if sequences exceed the original context") {
  const test::TemporaryDirectory directory;
  const auto path =
      test::named_model(small_config(), test::random_tensors(described(small_config()), 3)).write(directory / "model");
  const std::vector<double> short_factors = {1.0, 1.5, 2.0, 2.5};
  const std::vector<double> long_factors = {4.0, 5.0, 6.0, 7.0};
  for (const std::size_t context : {std::size_t{0}, std::size_t{8}}) {
    const Model model(path, FloatLayout::kRows, {.context = context});
    CHECK(model.context_length() == 8);
    CHECK(error_with_factors(model, short_factors) <= 1e-4);
    CHECK(error_with_factors(model, long_factors) > 1e-2);
  }
  for (const std::size_t context : {std::size_t{9}, std::size_t{32}}) {
    const Model model(path, FloatLayout::kRows, {.context = context});
    CHECK(model.context_length() == 32);
    CHECK(model.spec().long_context == 0);
    CHECK(error_with_factors(model, long_factors) <= 1e-4);
    CHECK(error_with_factors(model, short_factors) > 1e-2);
  }
  CHECK(test::error_message([&] { Model(path, FloatLayout::kRows, {.context = 33}); }) ==
        test::Contains("has no context of 33 tokens; its longest is 32"));
}

TEST_CASE("a family that does not stretch by LongRoPE refuses it") {
  json config = with_field(stretched(), "model_type", "llama");
  config.erase("partial_rotary_factor");
  CHECK(test::error_message([&] { described(config); }) ==
        "config.json: rope_scaling.rope_type: 'longrope' is not supported; supported: default, dynamic, "
        "linear, llama3, mrope, yarn");
}

}  // namespace ballast::model::phi3_test
