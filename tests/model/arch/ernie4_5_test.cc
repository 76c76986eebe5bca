#include <doctest/doctest.h>

#include <vector>

#include "described.h"
#include "layers.h"

namespace ballast::model::ernie4_5_test {

const nlohmann::json kConfig = {{"model_type", "ernie4_5"}, {"num_hidden_layers", 2},  {"hidden_size", 32},
                                {"num_attention_heads", 4}, {"intermediate_size", 40}, {"vocab_size", 10}};

TEST_CASE("ERNIE 4.5 has the defaults of its configuration class") {
  const ModelSpec spec = test::described(kConfig);
  CHECK(test::attention_of(spec).head_size == 128);
  CHECK(test::attention_of(spec).kv_heads == 2);
  CHECK(test::attention_of(spec).rope->theta == 500000.0);
  CHECK(spec.norm.epsilon == 1e-5);
  CHECK(spec.tied_embeddings);
  // null selects the default.
  CHECK(test::attention_of(test::described(test::with_field(kConfig, "head_dim", nullptr))).head_size == 8);
}

TEST_CASE("ERNIE 4.5 has all biases or none") {
  for (const bool flag : {false, true}) {
    const BiasSpec biases = test::described(test::with_field(kConfig, "use_bias", flag)).biases;
    for (const bool bias : {biases.query, biases.key, biases.value, biases.attention_output, biases.up, biases.down}) {
      CHECK(bias == flag);
    }
  }
}

TEST_CASE("ERNIE 4.5's mixtures choose by corrected softmax, in the layers that the configuration counts") {
  nlohmann::json config = kConfig;
  config.update({{"model_type", "ernie4_5_moe"},
                 {"num_hidden_layers", 6},
                 {"moe_num_experts", 4},
                 {"moe_k", 2},
                 {"moe_intermediate_size", 8},
                 {"moe_layer_interval", 2}});
  const auto mixed = [](const nlohmann::json& description) {
    std::vector<bool> layers;
    for (const LayerSpec& layer : test::described(description).layers) layers.push_back(layer.mlp.experts.has_value());
    return layers;
  };
  CHECK(mixed(config) == std::vector<bool>{false, true, false, true, false, true});
  CHECK(mixed(test::with_field(config, "moe_layer_end_index", 3)) ==
        std::vector<bool>{false, true, false, true, false, false});
  CHECK(mixed(test::with_field(config, "moe_layer_start_index", 2)) ==
        std::vector<bool>{false, false, false, true, false, true});
  const ModelSpec spec = test::described(config);
  CHECK(test::attention_of(spec).kv_heads == 4);
  const ExpertSpec& experts = *spec.layers[1].mlp.experts;
  CHECK(experts.scoring == ExpertSpec::Scoring::kSoftmax);
  CHECK(experts.correction_bias);
  CHECK(experts.normalize);
  CHECK(experts.least_sum == 1e-12);
  CHECK(experts.shared_size == 16);
  CHECK(test::refusal_of_field(config, "use_bias", true) == "config.json: use_bias: true is not supported");
  CHECK(test::refusal_of_field(config, "moe_k", 5) == "config.json: moe_k: is more than the number of experts");
}

}  // namespace ballast::model::ernie4_5_test
