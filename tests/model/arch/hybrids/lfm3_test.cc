#include <doctest/doctest.h>

#include "described.h"

namespace ballast::model::lfm3_test {

using nlohmann::json;
using test::described;
using test::with_field;

const json kConfig = {{"model_type", "lfm3"},     {"num_hidden_layers", 6},   {"hidden_size", 32},
                      {"num_attention_heads", 4}, {"num_key_value_heads", 2}, {"head_dim", 12},
                      {"intermediate_size", 40},  {"vocab_size", 10}};
const json kTwoTypes = {
    {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 300.0}}},
    {"full_attention", {{"rope_type", "proportional"}, {"rope_theta", 5000.0}, {"partial_rotary_factor", 0.5}}}};

const AttentionSpec* attention_of(const ModelSpec& spec, std::size_t layer) {
  return spec.layers[layer].attention();
}

std::string refusal(const char* field, const json& value) {
  return test::refusal_of_field(kConfig, field, value);
}

TEST_CASE(
    "without a list of types every second layer of LFM3 attends from the third on, in turn over all and a window") {
  const ModelSpec spec = described(kConfig);
  for (const std::size_t layer : {0, 1, 3, 5}) {
    const auto& convolution = std::get<ShortConvolutionSpec>(spec.layers[layer].mixer);
    CHECK(convolution.channels == 32);
    CHECK(convolution.width == 7);
    CHECK(!convolution.bias);
  }
  CHECK(attention_of(spec, 2)->window == 0);
  CHECK(attention_of(spec, 4)->window == 256);
  for (const std::size_t layer : {2, 4}) {
    CHECK(attention_of(spec, layer)->query_key_norm);
    CHECK(attention_of(spec, layer)->output_gate);
    CHECK(attention_of(spec, layer)->head_gates);
    CHECK(attention_of(spec, layer)->gate_size() == 4);
    CHECK(attention_of(spec, layer)->rope->rotary_size == 12);
  }
  CHECK(*attention_of(spec, 2)->rope == RopeSpec{.theta = 1e6, .rotary_size = 12, .turning_pairs = 3});
  CHECK(*attention_of(spec, 4)->rope == RopeSpec{.theta = 1e4, .rotary_size = 12});
  CHECK(spec.post_norms);
  CHECK(spec.tied_embeddings);
  CHECK(spec.norm.epsilon == 1e-5);
  CHECK(spec.context_length == 128000);
}

TEST_CASE("LFM3 reads all settings from its configuration") {
  json config = kConfig;
  config.update({{"layer_types", {"sliding_attention", "conv", "full_attention", "conv", "conv", "conv"}},
                 {"rope_parameters", kTwoTypes},
                 {"sliding_window", 5},
                 {"conv_L_cache", 4},
                 {"conv_bias", true},
                 {"attention_bias", true},
                 {"use_sandwich_norm", false},
                 {"use_attention_gate", false},
                 {"norm_eps", 1e-3},
                 {"tie_word_embeddings", false}});
  const ModelSpec spec = described(config);
  CHECK(attention_of(spec, 0)->window == 5);
  CHECK(attention_of(spec, 0)->rope->theta == 300.0);
  CHECK(attention_of(spec, 0)->rope->turning_pairs == 0);
  CHECK(attention_of(spec, 2)->window == 0);
  CHECK(attention_of(spec, 2)->rope->theta == 5000.0);
  CHECK(attention_of(spec, 2)->rope->turning_pairs == 3);
  CHECK(!attention_of(spec, 2)->output_gate);
  const auto& convolution = std::get<ShortConvolutionSpec>(spec.layers[1].mixer);
  CHECK(convolution.width == 4);
  CHECK(convolution.bias);
  const BiasSpec& biases = spec.biases;
  for (const bool bias :
       {biases.query, biases.key, biases.value, biases.attention_output, biases.mixer_input, biases.mixer_output}) {
    CHECK(bias);
  }
  CHECK(!biases.output_gate);
  CHECK(!spec.post_norms);
  CHECK(!spec.tied_embeddings);
  CHECK(spec.norm.epsilon == 1e-3);
}

TEST_CASE("LFM3's heads have 128 channels by default, and an odd part of the pairs is rounded down") {
  json config = kConfig;
  config.erase("head_dim");
  CHECK(attention_of(described(config), 2)->head_size == 128);
  config["head_dim"] = 10;
  CHECK(attention_of(described(config), 2)->rope->turning_pairs == 2);
  config["rope_parameters"] = kTwoTypes;
  CHECK(attention_of(described(config), 2)->rope->turning_pairs == 2);
}

TEST_CASE("LFM3's default rotation covers all pairs, even if the configuration names a part") {
  json types = kTwoTypes;
  types["full_attention"]["rope_type"] = "default";
  const ModelSpec spec = described(with_field(kConfig, "rope_parameters", types));
  CHECK(*attention_of(spec, 2)->rope == RopeSpec{.theta = 5000.0, .rotary_size = 12});
  types["full_attention"] = {{"rope_type", "linear"}, {"rope_theta", 5000.0}, {"factor", 4.0}};
  const RopeSpec linear = *attention_of(described(with_field(kConfig, "rope_parameters", types)), 2)->rope;
  CHECK(linear.scaling == RopeSpec::Scaling::kLinear);
  CHECK(linear.factor == 4.0);
  types["full_attention"]["partial_rotary_factor"] = 0.5;
  CHECK(refusal("rope_parameters", types) ==
        "config.json: rope_parameters.full_attention.partial_rotary_factor: must be 1 for the rope_type 'linear'");
}

TEST_CASE("LFM3's settings that are not supported are refused by field") {
  CHECK(refusal("layer_types", {"conv", "conv", "linear_attention", "conv", "conv", "conv"}) ==
        "config.json: layer_types[2]: 'linear_attention' is not supported; supported: conv, full_attention, "
        "sliding_attention");
  CHECK(refusal("layer_types", {"conv"}) == "config.json: layer_types: has 1 entries for 6 layers");
  CHECK(refusal("rope_parameters", {{"rope_type", "default"}, {"rope_theta", 300.0}}) ==
        "config.json: rope_parameters.full_attention: missing, but there are layers of this type");
  CHECK(refusal("rope_parameters", {{"full_attention", {{"rope_type", "default"}}}}) ==
        "config.json: rope_parameters.sliding_attention: missing, but there are layers of this type");
  json types = kTwoTypes;
  types["full_attention"]["partial_rotary_factor"] = 0.1;
  CHECK(refusal("rope_parameters", types) ==
        "config.json: rope_parameters.full_attention.partial_rotary_factor: turns no pair of a head's 12 channels");
  CHECK(refusal("rope_scaling", {{"rope_type", "default"}}) ==
        "config.json: rope_scaling: is not supported: use rope_parameters");
  CHECK(refusal("sliding_window", nullptr) == test::Contains("sliding_window"));
}

}  // namespace ballast::model::lfm3_test
