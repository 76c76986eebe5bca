#include <doctest/doctest.h>

#include <cmath>

#include "described.h"
#include "layers.h"

namespace ballast::model::hunyuan_test {

using nlohmann::json;

json config_of(const char* model_type) {
  return {{"model_type", model_type},
          {"num_hidden_layers", 2},
          {"hidden_size", 32},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"head_dim", 12},
          {"intermediate_size", 40},
          {"vocab_size", 10},
          {"num_experts", 6},
          {"num_experts_per_tok", 2},
          {"moe_topk", 2}};
}

TEST_CASE("Hunyuan normalizes its heads after the rotation") {
  for (const char* type : {"hunyuan_v1_dense", "hunyuan_v1_moe"}) {
    const ModelSpec spec = test::described(config_of(type));
    CHECK(test::attention_of(spec).query_key_norm);
    CHECK(test::attention_of(spec).query_key_norm->after_rotation);
    CHECK(spec.norm.epsilon == 1e-5);
    CHECK(test::refusal_of_field(config_of(type), "use_qk_norm", false) ==
          "config.json: use_qk_norm: false is not supported");
    CHECK(test::refusal_of_field(config_of(type), "use_cla", true) == "config.json: use_cla: true is not supported");
  }
}

TEST_CASE("an alpha scales the base of Hunyuan's rotation for texts of any length") {
  json config = config_of("hunyuan_v1_dense");
  config["rope_scaling"] = {{"type", "dynamic"}, {"alpha", 1000.0}, {"factor", 1.0}};
  CHECK(test::attention_of(test::described(config)).rope->theta ==
        doctest::Approx(10000.0 * std::pow(1000.0, 12.0 / 10.0)));
  config["rope_scaling"].erase("alpha");
  CHECK(test::attention_of(test::described(config)).rope->theta == 10000.0);
  config["rope_scaling"]["alpha"] = 0;
  CHECK(test::error_message([&] { test::described(config); }) == "config.json: rope_scaling.alpha: must be positive");
  config["rope_scaling"]["alpha"] = 2.0;
  config["head_dim"] = 2;
  CHECK(test::error_message([&] { test::described(config); }) ==
        "config.json: rope_scaling.alpha: needs heads of more than 2 channels");
}

TEST_CASE("Hunyuan's experts are as large as the MLP that all tokens pass, and may be counted layer by layer") {
  json config = config_of("hunyuan_v1_moe");
  config["moe_topk"] = {2, 3};
  const ModelSpec spec = test::described(config);
  CHECK(spec.layers[1].mlp.experts->per_token == 3);
  for (const LayerSpec& layer : spec.layers) {
    CHECK(layer.mlp.experts->count == 6);
    CHECK(layer.mlp.experts->size == 40);
    CHECK(layer.mlp.experts->shared_size == 40);
    CHECK(layer.mlp.experts->normalize);
  }
  CHECK(test::refusal_of_field(config, "moe_topk", {2}) == "config.json: moe_topk: has no entry for layer 1");
  CHECK(test::refusal_of_field(config, "moe_topk", 7) == "config.json: moe_topk: is more than the number of experts");
  CHECK(test::refusal_of_field(config, "moe_intermediate_size", {40, 30}) ==
        "config.json: moe_intermediate_size: must be intermediate_size");
  CHECK(test::refusal_of_field(config, "num_shared_expert", 2) == "config.json: num_shared_expert: must be 1");
}

TEST_CASE("Hy3 normalizes its heads before the rotation and has DeepSeek-V3's experts in all layers but the first") {
  json config = config_of("hy_v3");
  config["moe_intermediate_size"] = 8;
  const ModelSpec spec = test::described(config);
  CHECK(test::attention_of(spec).query_key_norm);
  CHECK(!test::attention_of(spec).query_key_norm->after_rotation);
  CHECK(test::attention_of(spec).rope->theta == 11158840.0);
  CHECK(!spec.layers[0].mlp.experts);
  const ExpertSpec& experts = *spec.layers[1].mlp.experts;
  CHECK(experts.scoring == ExpertSpec::Scoring::kSigmoid);
  CHECK(experts.correction_bias);
  CHECK(experts.normalize);
  CHECK(experts.scale == 2.826);
  CHECK(experts.shared_size == 8);
  CHECK(test::refusal_of_field(config, "mlp_bias", true) == "config.json: mlp_bias: true is not supported");
}

}  // namespace ballast::model::hunyuan_test
