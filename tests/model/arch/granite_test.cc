#include <doctest/doctest.h>

#include <cmath>

#include "described.h"
#include "layers.h"

namespace ballast::model::granite_test {

const nlohmann::json kConfig = {{"model_type", "granite"},  {"num_hidden_layers", 2},  {"hidden_size", 32},
                                {"num_attention_heads", 4}, {"intermediate_size", 40}, {"vocab_size", 10}};

TEST_CASE("Granite's factors multiply embeddings, scores and additions to the stream, and divide the logits") {
  nlohmann::json config = kConfig;
  config["embedding_multiplier"] = 12.0;
  config["attention_multiplier"] = 0.015625;
  config["residual_multiplier"] = 0.22;
  config["logits_scaling"] = 8.0;
  const ModelSpec spec = test::described(config);
  CHECK(spec.embedding_scale == 12.0);
  CHECK(test::attention_of(spec).scale == 0.015625);
  CHECK(spec.residual_scale == 0.22);
  CHECK(spec.logit_scale == 0.125);
}

TEST_CASE("Granite's factors are 1 by default, that of the scores too") {
  const ModelSpec spec = test::described(kConfig);
  CHECK(spec.embedding_scale == 1.0);
  CHECK(test::attention_of(spec).scale == 1.0);
  CHECK(spec.residual_scale == 1.0);
  CHECK(spec.logit_scale == 1.0);
  CHECK(!spec.tied_embeddings);
  CHECK(!spec.biases.query);
  CHECK(test::described(test::with_field(kConfig, "mlp_bias", true)).biases.down);
}

TEST_CASE("a factor of Granite that is not positive is refused by field") {
  for (const char* field : {"embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling"}) {
    CHECK(test::refusal_of_field(kConfig, field, 0) == "config.json: " + std::string(field) + ": must be positive");
  }
}

TEST_CASE("Granite's mixtures have its factors and experts of the MLP's size in every layer") {
  nlohmann::json config = kConfig;
  config["model_type"] = "granitemoe";
  config["num_local_experts"] = 4;
  config["num_experts_per_tok"] = 2;
  config["residual_multiplier"] = 0.22;
  const ModelSpec spec = test::described(config);
  CHECK(spec.residual_scale == 0.22);
  for (const LayerSpec& layer : spec.layers) {
    CHECK(layer.mlp.experts->size == 40);
    CHECK(layer.mlp.experts->normalize);
  }
}

TEST_CASE("some of Granite's mixtures have a shared MLP and experts") {
  nlohmann::json config = kConfig;
  config.update({{"model_type", "granitemoeshared"}, {"num_local_experts", 4}, {"num_experts_per_tok", 2}});
  CHECK(test::mlp_of(test::described(config)).experts->shared_size == 0);
  config["shared_intermediate_size"] = 12;
  CHECK(test::mlp_of(test::described(config)).experts->shared_size == 12);
  // The other families do not have this field.
  config["model_type"] = "granitemoe";
  CHECK(test::mlp_of(test::described(config)).experts->shared_size == 0);
}

TEST_CASE("HyperCLOVA X has output norms and multiplies the logits") {
  nlohmann::json config = test::with_field(kConfig, "model_type", "hyperclovax");
  config["logits_scaling"] = 0.25;
  const ModelSpec spec = test::described(config);
  CHECK(spec.post_norms);
  CHECK(spec.logit_scale == 0.25);
  CHECK(test::attention_of(spec).scale == doctest::Approx(1 / std::sqrt(8.0)));
  CHECK(!test::described(test::with_field(config, "use_post_norm", false)).post_norms);
  CHECK(test::attention_of(test::described(test::with_field(config, "attention_multiplier", 0.5))).scale == 0.5);
}

}  // namespace ballast::model::granite_test
