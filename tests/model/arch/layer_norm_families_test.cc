#include <doctest/doctest.h>

#include <cmath>

#include "described.h"
#include "layers.h"

namespace ballast::model::layer_norm_families_test {

using nlohmann::json;
using test::described;
using test::with_field;

const json kGpt2Config = {{"model_type", "gpt2"}, {"n_layer", 2}, {"n_embd", 32}, {"n_head", 4}, {"vocab_size", 10}};
const json kNeoxConfig = {{"model_type", "gpt_neox"}, {"num_hidden_layers", 2},  {"hidden_size", 32},
                          {"num_attention_heads", 2}, {"intermediate_size", 40}, {"vocab_size", 10}};
const json kBertConfig = {{"model_type", "bert"},     {"num_hidden_layers", 2},  {"hidden_size", 32},
                          {"num_attention_heads", 4}, {"intermediate_size", 40}, {"vocab_size", 10}};

void check_biases_everywhere(const ModelSpec& spec) {
  CHECK(spec.norm.kind == NormSpec::Kind::kLayer);
  CHECK(spec.norm.bias);
  CHECK(!test::mlp_of(spec).gated);
  for (const bool bias : {spec.biases.query, spec.biases.key, spec.biases.value, spec.biases.attention_output,
                          spec.biases.up, spec.biases.down}) {
    CHECK(bias);
  }
}

TEST_CASE("GPT-2 has learned positions, a tied head and an MLP of four times the width by default") {
  const ModelSpec spec = described(kGpt2Config);
  check_biases_everywhere(spec);
  CHECK(spec.learned_positions);
  CHECK(spec.context_length == 1024);
  CHECK(test::mlp_of(spec).size == 128);
  CHECK(test::mlp_of(spec).activation == Activation::kGeluTanh);
  CHECK(spec.tied_embeddings);
  CHECK(test::attention_of(spec).scale == doctest::Approx(1 / std::sqrt(8.0)));
  CHECK(described(with_field(kGpt2Config, "scale_attn_weights", false)).layers[0].attention()->scale == 1.0);
}

TEST_CASE("GPT-2's settings that are not supported or make no sense are refused by field") {
  const auto refusal = [](const char* field, const json& value) {
    return test::refusal_of_field(kGpt2Config, field, value);
  };
  CHECK(refusal("scale_attn_by_inverse_layer_idx", true) ==
        "config.json: scale_attn_by_inverse_layer_idx: true is not supported");
  CHECK(refusal("n_head", 5) == "config.json: n_head: must divide the hidden size");
  CHECK(refusal("n_embd", -1) == "config.json: n_embd: must be between 1 and 2^31 - 1, is -1");
  CHECK(refusal("activation_function", "swiglu") ==
        test::Contains("config.json: activation_function: 'swiglu' is not supported; supported: silu, "));
}

TEST_CASE("GPT-NeoX adds attention and MLP in parallel and rotates a quarter of a head") {
  const ModelSpec spec = described(kNeoxConfig);
  check_biases_everywhere(spec);
  CHECK(spec.layout == BlockLayout::kParallel);
  CHECK(test::attention_of(spec).rope->rotary_size == 4);
  CHECK(test::mlp_of(spec).activation == Activation::kGelu);
  CHECK(!spec.tied_embeddings);
  CHECK(described(with_field(kNeoxConfig, "use_parallel_residual", false)).layout == BlockLayout::kPreNorm);
  CHECK(!described(with_field(kNeoxConfig, "attention_bias", false)).biases.key);
  CHECK(described(with_field(kNeoxConfig, "rotary_emb_base", 500)).layers[0].attention()->rope->theta == 500.0);
}

TEST_CASE("BERT is bidirectional, has norms after the residual and a head that predicts masked words") {
  const ModelSpec spec = described(kBertConfig);
  check_biases_everywhere(spec);
  CHECK(spec.layout == BlockLayout::kPostNorm);
  CHECK(!spec.has_final_norm());
  CHECK(!spec.causal);
  CHECK(spec.learned_positions);
  CHECK(spec.token_types == 2);
  CHECK(spec.embedding_norm);
  CHECK(spec.head_transform);
  CHECK(spec.biases.head);
  CHECK(spec.tied_embeddings);
}

TEST_CASE("BERT's settings that are not supported are refused by field") {
  CHECK(test::refusal_of_field(kBertConfig, "is_decoder", true) == "config.json: is_decoder: true is not supported");
  CHECK(test::refusal_of_field(kBertConfig, "position_embedding_type", "relative_key") ==
        "config.json: position_embedding_type: 'relative_key' is not supported; supported: absolute");
}

}  // namespace ballast::model::layer_norm_families_test
