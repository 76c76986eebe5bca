#include <doctest/doctest.h>

#include <cmath>

#include "described.h"
#include "layers.h"

namespace ballast::model::mistral_test {

using nlohmann::json;

const json kConfig = {{"model_type", "ministral3"},
                      {"num_hidden_layers", 2},
                      {"hidden_size", 32},
                      {"num_attention_heads", 4},
                      {"num_key_value_heads", 2},
                      {"head_dim", 12},
                      {"intermediate_size", 40},
                      {"vocab_size", 10},
                      {"rope_parameters",
                       {{"rope_type", "yarn"},
                        {"rope_theta", 1e6},
                        {"factor", 16.0},
                        {"original_max_position_embeddings", 32},
                        {"mscale", 1.0},
                        {"mscale_all_dim", 1.0},
                        {"llama_4_scaling_beta", 0.1}}}};

TEST_CASE("Ministral 3's queries grow by the logarithm of how often their position exceeds the first context") {
  const ModelSpec spec = test::described(kConfig);
  const AttentionSpec& attention = test::attention_of(spec);
  REQUIRE(attention.query_growth);
  CHECK(attention.query_growth->factor(31) == 1.0);
  CHECK(attention.query_growth->factor(32) == doctest::Approx(1 + 0.1 * std::log(2.0)));
  CHECK(attention.query_growth->factor(100) == doctest::Approx(1 + 0.1 * std::log(4.0)));
  CHECK(attention.rope->scaling == RopeSpec::Scaling::kYarn);
  CHECK(attention.rope->amplitude == 1.0);
  CHECK(attention.window == 0);
  CHECK(spec.context_length == 262144);
  CHECK(test::attention_of(test::described(test::with_field(kConfig, "sliding_window", 7))).window == 7);
}

TEST_CASE("a Ministral 3 without RoPE scaling parameters is refused") {
  CHECK(test::refusal_of_field(kConfig, "rope_parameters", nullptr) == "config.json: rope_parameters: missing");
  json rope = kConfig["rope_parameters"];
  rope.erase("llama_4_scaling_beta");
  CHECK(test::refusal_of_field(kConfig, "rope_parameters", rope) ==
        "config.json: rope_parameters.llama_4_scaling_beta: missing");
}

TEST_CASE("a multimodal Mistral 3 is read as its text model, of any type") {
  json config = {{"model_type", "mistral3"}, {"text_config", kConfig}, {"vision_config", {{"hidden_size", 16}}}};
  CHECK(test::attention_of(test::described(config)).query_growth);
  CHECK(!test::described(config).tied_embeddings);
  config["tie_word_embeddings"] = true;
  CHECK(test::described(config).tied_embeddings);
  json latent = config;
  latent["text_config"].update({{"model_type", "mistral4"},
                                {"num_key_value_heads", 4},
                                {"kv_lora_rank", 8},
                                {"qk_nope_head_dim", 8},
                                {"qk_rope_head_dim", 4},
                                {"v_head_dim", 8},
                                {"n_routed_experts", 4},
                                {"moe_intermediate_size", 8},
                                {"num_experts_per_tok", 2}});
  CHECK(test::described(latent).layers[0].latent() != nullptr);
  config["text_config"].erase("rope_parameters");
  config["text_config"]["model_type"] = "mistral";
  config["text_config"]["sliding_window"] = nullptr;
  const ModelSpec mistral = test::described(config);
  CHECK(!test::attention_of(mistral).query_growth);
  CHECK(test::attention_of(mistral).window == 0);
  config["text_config"]["model_type"] = "qwen2";
  CHECK(test::error_message([&] { test::described(config); }) ==
        "config.json: text_config.model_type: 'qwen2' is not supported; supported: mistral, ministral3, mistral4");
}

}  // namespace ballast::model::mistral_test
