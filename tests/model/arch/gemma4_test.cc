#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "described.h"
#include "layers.h"
#include "model/arch/architecture.h"
#include "model/arch/rope_config.h"

namespace ballast::model::gemma4_test {

using nlohmann::json;
using test::described;
using test::with_field;

const json kConfig = {{"model_type", "gemma4_text"},
                      {"num_hidden_layers", 7},
                      {"hidden_size", 32},
                      {"num_attention_heads", 8},
                      {"num_key_value_heads", 4},
                      {"intermediate_size", 40},
                      {"vocab_size", 10},
                      {"hidden_size_per_layer_input", 0},
                      {"num_global_key_value_heads", 2}};

std::string refusal(const char* field, const json& value) {
  return test::refusal_of_field(kConfig, field, value);
}

TEST_CASE("Gemma 4 scales no score, normalizes queries, keys and values, and scales the stream layer by layer") {
  const ModelSpec spec = described(kConfig);
  CHECK(spec.post_norms);
  CHECK(spec.layer_scales);
  CHECK(spec.norm.gain_offset == 0.0);
  CHECK(spec.embedding_scale > 5.6);
  CHECK(spec.tied_embeddings);
  for (const LayerSpec& layer : spec.layers) {
    CHECK(layer.attention()->scale == 1.0);
    CHECK(layer.attention()->query_key_norm);
    CHECK(layer.attention()->value_norm);
  }
  CHECK(spec.logit_cap == 0.0);
  CHECK(described(with_field(kConfig, "final_logit_softcapping", 30.0)).logit_cap == 30.0);
}

TEST_CASE("every sixth layer of Gemma 4, and the last, has full attention with larger heads, a quarter rotated") {
  const ModelSpec spec = described(kConfig);
  for (std::size_t layer = 0; layer < 7; ++layer) {
    CAPTURE(layer);
    const AttentionSpec& attention = *spec.layers[layer].attention();
    const bool global = layer >= 5;
    CHECK(attention.window == (global ? 0 : 512));
    CHECK(attention.head_size == (global ? 512 : 256));
    CHECK(attention.value_size == attention.head_size);
    CHECK(attention.kv_heads == 4);
    CHECK(!attention.values_are_keys);
    CHECK(attention.rope->rotary_size == attention.head_size);
    CHECK(attention.rope->turning_pairs == (global ? 64 : 0));
    CHECK(attention.rope->theta == (global ? 1e6 : 1e4));
  }
  const std::vector<double> frequencies = rope_frequencies(*spec.layers[5].attention()->rope);
  REQUIRE(frequencies.size() == 256);
  CHECK(frequencies[0] == 1.0);
  CHECK(frequencies[63] == doctest::Approx(std::pow(1e6, -126.0 / 512)));
  CHECK(frequencies[64] == 0.0);
}

TEST_CASE("in Gemma 4's full-attention layers the values may be the keys, with fewer key heads") {
  const ModelSpec spec = described(with_field(kConfig, "attention_k_eq_v", true));
  CHECK(!spec.layers[0].attention()->values_are_keys);
  CHECK(spec.layers[0].attention()->kv_heads == 4);
  CHECK(spec.layers[5].attention()->values_are_keys);
  CHECK(spec.layers[5].attention()->kv_heads == 2);
  json by_layer = with_field(kConfig, "attention_k_eq_v", true);
  by_layer["per_layer_config"] = {{"5", {{"head_dim", 64}, {"num_key_value_heads", 1}}}, {"6", {{"head_dim", 128}}}};
  by_layer.erase("num_global_key_value_heads");
  const ModelSpec listed = described(by_layer);
  CHECK(listed.layers[5].attention()->head_size == 64);
  CHECK(listed.layers[5].attention()->kv_heads == 1);
  CHECK(listed.layers[6].attention()->head_size == 128);
  CHECK(listed.layers[6].attention()->kv_heads == 4);
}

TEST_CASE("a multimodal Gemma 4 is read as its text model") {
  const json config = {{"model_type", "gemma4"}, {"text_config", kConfig}};
  CHECK(described(config).layers.size() == 7);
  CHECK(described(with_field(config, "dtype", "bfloat16")).embedding_scale == 5.65625);
  CHECK(!described(with_field(config, "tie_word_embeddings", false)).tied_embeddings);
}

TEST_CASE("the last layers of Gemma 4 may read keys and values of the last earlier layer of their type") {
  json config = with_field(kConfig, "num_kv_shared_layers", 3);
  config["layer_types"] = {"full_attention",    "sliding_attention", "full_attention", "sliding_attention",
                           "sliding_attention", "sliding_attention", "full_attention"};
  const auto sources = [](const ModelSpec& spec) {
    std::vector<int> found;
    for (const LayerSpec& layer : spec.layers) {
      const std::optional<std::size_t>& source = layer.attention()->keys_of;
      found.push_back(source ? static_cast<int>(*source) : -1);
    }
    return found;
  };
  const ModelSpec spec = described(config);
  CHECK(sources(spec) == std::vector{-1, -1, -1, -1, 3, 3, 2});
  for (std::size_t layer = 0; layer < 7; ++layer) {
    CHECK(spec.layers[layer].attention()->shares_keys == (layer == 2 || layer == 3));
    CHECK(spec.layers[layer].mlp.size == 40);
  }
  const ModelSpec wide = described(with_field(config, "use_double_wide_mlp", true));
  for (std::size_t layer = 0; layer < 7; ++layer) CHECK(wide.layers[layer].mlp.size == (layer < 4 ? 40 : 80));
  CHECK(sources(described(kConfig)) == std::vector<int>(7, -1));

  CHECK(test::error_message([&] { described(with_field(config, "num_kv_shared_layers", 7)); }) ==
        "config.json: num_kv_shared_layers: leaves no layer with keys of its own");
  CHECK(refusal("num_kv_shared_layers", 2) ==
        "config.json: num_kv_shared_layers: leaves no layer of a type with keys of its own");
  config["per_layer_config"] = {{"6", {{"head_dim", 64}}}};
  CHECK(test::error_message([&] { described(config); }) ==
        "config.json: per_layer_config: gives layers that share keys and values other sizes of them");
}

TEST_CASE("each layer of Gemma 4 may have its own input of a token") {
  json config = with_field(kConfig, "hidden_size_per_layer_input", 16);
  config["vocab_size_per_layer_input"] = 10;
  config["rms_norm_eps"] = 1e-5;
  const std::optional<TokenInputSpec> inputs = described(config).token_inputs;
  REQUIRE(inputs);
  CHECK(inputs->size == 16);
  CHECK(inputs->table_scale == 4.0);
  CHECK(inputs->projection_epsilon == doctest::Approx(32e-5));
  CHECK(inputs->scale == doctest::Approx(std::sqrt(0.5)));
  CHECK(!described(kConfig).token_inputs);
  CHECK(!described(with_field(kConfig, "hidden_size_per_layer_input", nullptr)).token_inputs);

  config.erase("hidden_size_per_layer_input");
  CHECK(described(config).token_inputs->size == 256);
  CHECK(test::error_message([&] { described(with_field(config, "vocab_size_per_layer_input", 12)); }) ==
        "config.json: vocab_size_per_layer_input: must be vocab_size");
}

TEST_CASE("a mixture of Gemma 4 has experts in parallel with each MLP, with separate norms and gains") {
  json config = with_field(kConfig, "enable_moe_block", true);
  config["num_experts"] = 6;
  config["top_k_experts"] = 2;
  config["moe_intermediate_size"] = 24;
  const ModelSpec spec = described(config);
  for (const LayerSpec& layer : spec.layers) {
    const ExpertSpec& experts = *layer.mlp.experts;
    CHECK(experts.count == 6);
    CHECK(experts.per_token == 2);
    CHECK(experts.size == 24);
    CHECK(experts.shared_size == 40);
    CHECK(experts.post_norms);
    CHECK(experts.normalize);
  }
  const Architecture& architecture = architecture_for_model_type("gemma4_text", "");
  CHECK(architecture.stored_vectors(spec).size() == 6);
  CHECK(architecture.stored_vectors(described(kConfig)).empty());
  const std::vector<StoredFactor> factors = architecture.stored_factors(files::JsonReader(config, "config.json"));
  REQUIRE(factors.size() == 1);
  CHECK(factors[0].role == Role::kRouter);
  CHECK(factors[0].weights == doctest::Approx(1 / std::sqrt(32.0)));
  CHECK(test::error_message([&] { described(with_field(config, "top_k_experts", 7)); }) ==
        "config.json: top_k_experts: is more than the number of experts");
}

TEST_CASE("Gemma 4's settings that are not supported are refused by field") {
  CHECK(refusal("use_bidirectional_attention", "all") ==
        "config.json: use_bidirectional_attention: is not supported for text");
  CHECK(refusal("use_bidirectional_attention", "vision") == "no error");
  CHECK(refusal("rope_parameters", {{"full_attention", {{"rope_type", "yarn"}}}}) ==
        test::Contains("rope_parameters.full_attention.rope_type: 'yarn' is not supported here"));
  CHECK(refusal("per_layer_config", {{"5", {{"sliding_window", 8}}}}) ==
        "config.json: per_layer_config.5.sliding_window: is not supported");
}

}  // namespace ballast::model::gemma4_test
