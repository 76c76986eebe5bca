// Families without a golden model: their names and settings are new, but not their computations.
#include <doctest/doctest.h>

#include <string>

#include "described.h"
#include "family_model.h"

namespace ballast::model::kin_families_test {

using nlohmann::json;

/// Fields that some family reads; each family ignores the others.
json small_config(const char* model_type) {
  return {{"model_type", model_type},
          {"num_hidden_layers", 2},
          {"hidden_size", 24},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"head_dim", 8},
          {"intermediate_size", 20},
          {"vocab_size", 10},
          {"max_position_embeddings", 32},
          {"sliding_window", 5},
          {"layer_types", {"sliding_attention", "full_attention"}},
          {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 10000.0}}},
          {"tie_word_embeddings", false},
          {"moe_intermediate_size", 12},
          {"num_experts", 6},
          {"num_local_experts", 6},
          {"n_routed_experts", 6},
          {"n_shared_experts", 2},
          {"num_experts_per_tok", 2},
          {"n_group", 3},
          {"topk_group", 2},
          {"moe_topk", 2},
          {"shared_intermediate_size", 16}};
}

json with_types(json config) {
  config["rope_parameters"] = {{"full_attention", config["rope_parameters"]},
                               {"sliding_attention", config["rope_parameters"]}};
  return config;
}

json without(json config, const char* field) {
  config.erase(field);
  return config;
}

json lfm2_mixture() {
  json config = small_config("lfm2_moe");
  config["layer_types"] = {"conv", "full_attention"};
  config["num_dense_layers"] = 1;
  return config;
}

/// A model with biases that published checkpoints do not have.
json lfm2_with_biases() {
  json config = small_config("lfm2");
  config["layer_types"] = {"conv", "full_attention"};
  config["conv_bias"] = true;
  return config;
}

json afmoe_with_biases() {
  json config = small_config("afmoe");
  config["attention_bias"] = true;
  config["n_group"] = config["topk_group"] = 1;
  return config;
}

/// A model as published: no biases, convolutions over 7 tokens, and layer types and rotations by default.
json lfm3() {
  json config = small_config("lfm3");
  config["num_hidden_layers"] = 5;
  config.erase("layer_types");
  config.erase("rope_parameters");
  return config;
}

json ernie_mixture() {
  json config = small_config("ernie4_5_moe");
  config["moe_num_experts"] = 6;
  config["moe_k"] = 2;
  return config;
}

json mistral4() {
  json config = small_config("mistral4");
  config["num_key_value_heads"] = 4;
  config["kv_lora_rank"] = 10;
  config["q_lora_rank"] = 9;
  config["qk_nope_head_dim"] = 6;
  config["qk_rope_head_dim"] = 4;
  config["v_head_dim"] = 5;
  config["rope_parameters"] = {{"rope_type", "yarn"},
                               {"rope_theta", 10000.0},
                               {"factor", 4.0},
                               {"original_max_position_embeddings", 5},
                               {"llama_4_scaling_beta", 0.3}};
  return config;
}

json llama4_text() {
  json config = without(small_config("llama4_text"), "layer_types");
  config["intermediate_size_mlp"] = 28;
  config["interleave_moe_layer_step"] = 2;
  config["no_rope_layer_interval"] = 2;
  config["floor_scale"] = 3;
  return config;
}

json narrow_embedding(const char* model_type) {
  json config = small_config(model_type);
  config["embedding_size"] = 10;
  return config;
}

json jina_bert(const char* mlp) {
  json config = small_config("bert");
  config["architectures"] = {"JinaBertForMaskedLM"};
  config["position_embedding_type"] = "alibi";
  config["feed_forward_type"] = mlp;
  config["num_attention_heads"] = 6;  // no power of 2
  return config;
}

json gte_of_authors() {
  json config = small_config("new");
  config["rope_scaling"] = {{"type", "ntk"}, {"factor", 8.0}};
  return config;
}

/// The configuration of a multimodal model around that of a text model.
json beside_images(const char* model_type, json text) {
  text.erase("model_type");
  return {{"model_type", model_type}, {"text_config", std::move(text)}, {"tie_word_embeddings", false}};
}

TEST_CASE("families that differ only in names and settings give the logits of the reference") {
  for (const json& config : {small_config("cwm"),
                             small_config("internlm3"),
                             small_config("iquestcoder"),
                             small_config("jais2"),
                             small_config("flex_olmo"),
                             small_config("granitemoeshared"),
                             small_config("hyperclovax"),
                             small_config("dots1"),
                             small_config("solar_open"),
                             without(small_config("hunyuan_v1_moe"), "moe_intermediate_size"),
                             small_config("hy_v3"),
                             without(small_config("minimax_m2"), "shared_intermediate_size"),
                             with_types(small_config("mellum")),
                             small_config("exaone_moe"),
                             small_config("nanochat"),
                             small_config("vaultgemma"),
                             mistral4(),
                             llama4_text(),
                             beside_images("llama4", llama4_text()),
                             lfm2_mixture(),
                             lfm2_with_biases(),
                             lfm3(),
                             afmoe_with_biases(),
                             ernie_mixture(),
                             narrow_embedding("electra"),
                             narrow_embedding("albert"),
                             jina_bert("geglu"),
                             jina_bert("reglu"),
                             gte_of_authors(),
                             beside_images("qwen2_vl", small_config("")),
                             beside_images("qwen2_5_vl", small_config("")),
                             beside_images("qwen3_vl", small_config("")),
                             beside_images("mistral3", without(small_config(""), "layer_types"))}) {
    CAPTURE(config.at("model_type").get<std::string>());
    const test::RoleTensors random = test::random_tensors(test::described(config), 3);
    const test::TinyModel model = test::named_model(config, random);
    const test::TemporaryDirectory directory;
    const ModelSource source(model.write(directory / "model"));
    CHECK(test::family_error(model, source.spec(), test::read_tensors(source)) <= 1e-4);
  }
}

}  // namespace ballast::model::kin_families_test
