#include <doctest/doctest.h>

#include <cmath>

#include "described.h"
#include "layers.h"

namespace ballast::model::nomic_bert_test {

using nlohmann::json;
using test::described;
using test::with_field;

const json kConfig = {{"model_type", "nomic_bert"}, {"num_hidden_layers", 2},  {"hidden_size", 32},
                      {"num_attention_heads", 4},   {"intermediate_size", 40}, {"vocab_size", 10}};
const json kAuthorsConfig = {{"model_type", "nomic_bert"},
                             {"n_layer", 2},
                             {"n_embd", 32},
                             {"n_head", 4},
                             {"n_inner", 40},
                             {"vocab_size", 10},
                             {"activation_function", "swiglu"},
                             {"rotary_emb_base", 1000},
                             {"rotary_scaling_factor", nullptr}};

void check_common(const ModelSpec& spec) {
  CHECK(spec.layout == BlockLayout::kPostNorm);
  CHECK(!spec.causal);
  CHECK(!spec.learned_positions);
  CHECK(spec.embedding_norm);
  CHECK(spec.has_head);
  CHECK(spec.biases.head_transform);
  CHECK(test::mlp_of(spec).size == 40);
  CHECK(test::attention_of(spec).rope->rotary_size == 8);
}

TEST_CASE(
    "Nomic BERT rotates, has gated MLPs and no biases in its blocks, as transformers and as its authors write it") {
  for (const json& config : {kConfig, kAuthorsConfig}) {
    const ModelSpec spec = described(config);
    check_common(spec);
    CHECK(test::mlp_of(spec).gated);
    CHECK(test::mlp_of(spec).activation == Activation::kSilu);
    CHECK(spec.head_transform == Activation::kSilu);
    CHECK(test::attention_of(spec).rope->theta == 1000);
    CHECK(spec.token_types == 2);
    for (const bool bias : {spec.biases.query, spec.biases.key, spec.biases.value, spec.biases.attention_output,
                            spec.biases.up, spec.biases.down}) {
      CHECK(!bias);
    }
  }
  CHECK(described(kConfig).context_length == 2048);
  CHECK(described(kAuthorsConfig).context_length == 8192);
}

TEST_CASE("GTE has biases in attention and after its gated MLPs, Jina Embeddings v3 everywhere and no gates") {
  const ModelSpec gte = described(with_field(kConfig, "model_type", "gte"));
  check_common(gte);
  CHECK(test::mlp_of(gte).gated);
  CHECK(test::mlp_of(gte).activation == Activation::kGelu);
  CHECK(gte.biases.query);
  CHECK(gte.biases.down);
  CHECK(!gte.biases.up);
  CHECK(gte.token_types == 1);
  CHECK(test::attention_of(gte).rope->theta == 160000);
  CHECK(described(with_field(with_field(kConfig, "model_type", "gte"), "type_vocab_size", 0)).token_types == 0);
  const ModelSpec jina = described(with_field(kConfig, "model_type", "jina_embeddings_v3"));
  check_common(jina);
  CHECK(!test::mlp_of(jina).gated);
  CHECK(jina.biases.up);
  CHECK(jina.norm.epsilon == 1e-5);
  CHECK(test::attention_of(jina).rope->theta == 20000);
}

TEST_CASE("settings of Nomic BERT's authors that are not supported are refused by field") {
  const auto refusal = [](const char* field, const json& value) {
    return test::refusal_of_field(kAuthorsConfig, field, value);
  };
  CHECK(refusal("prenorm", true) == "config.json: prenorm: true is not supported");
  CHECK(refusal("qkv_proj_bias", true) == "config.json: qkv_proj_bias: true is not supported");
  CHECK(refusal("activation_function", "gelu") ==
        "config.json: activation_function: 'gelu' is not supported; supported: swiglu");
  CHECK(refusal("rotary_emb_fraction", 0.5) == "config.json: rotary_emb_fraction: is not 1");
  CHECK(refusal("rotary_scaling_factor", 2) == "config.json: rotary_scaling_factor: is not supported");
}

TEST_CASE("ELECTRA is BERT with another head, and projects a narrow embedding") {
  json config = with_field(with_field(kConfig, "model_type", "electra"), "embedding_size", 32);
  const ModelSpec spec = described(config);
  CHECK(spec.learned_positions);
  CHECK(spec.token_types == 2);
  CHECK(spec.biases.up);
  CHECK(spec.head_transform == Activation::kGelu);
  CHECK(spec.embedding_size == 0);
  const ModelSpec narrow = described(with_field(config, "embedding_size", 16));
  CHECK(narrow.embedding_size == 16);
  CHECK(narrow.embedding_channels() == 16);
  CHECK(test::refusal_of_field(config, "architectures", {"ElectraForPreTraining"}) ==
        test::Contains("'ElectraForPreTraining' is not supported; supported: ElectraModel, ElectraForMaskedLM"));
}

TEST_CASE("ALBERT projects a narrow embedding; only one group of layers, or one for each, is supported") {
  const json config = with_field(kConfig, "model_type", "albert");
  const ModelSpec spec = described(config);
  CHECK(spec.embedding_size == 128);
  CHECK(spec.learned_positions);
  CHECK(spec.head_transform == Activation::kGeluTanh);
  CHECK(described(with_field(config, "num_hidden_groups", 2)).layers.size() == 2);
  CHECK(test::refusal_of_field(with_field(config, "num_hidden_layers", 4), "num_hidden_groups", 2) ==
        "config.json: num_hidden_groups: 2 is not supported; supported: 1, or as many as layers");
  CHECK(test::refusal_of_field(config, "inner_group_num", 2) == "config.json: inner_group_num: is not 1");
}

TEST_CASE("BERT with ALiBi is Jina BERT: no positions, gated MLPs") {
  json config = with_field(kConfig, "model_type", "bert");
  config["position_embedding_type"] = "alibi";
  config["feed_forward_type"] = "geglu";
  config["architectures"] = {"JinaBertForMaskedLM"};
  const ModelSpec spec = described(config);
  CHECK(!spec.learned_positions);
  CHECK(test::attention_of(spec).alibi);
  CHECK(test::mlp_of(spec).gated);
  CHECK(test::mlp_of(spec).activation == Activation::kGelu);
  CHECK(!spec.biases.up);
  CHECK(spec.biases.down);
  CHECK(test::mlp_of(described(with_field(config, "feed_forward_type", "reglu"))).activation == Activation::kRelu);
  CHECK(test::refusal_of_field(config, "feed_forward_type", "original") ==
        "config.json: feed_forward_type: 'original' is not supported; supported: geglu, reglu");
  CHECK(test::refusal_of_field(with_field(kConfig, "model_type", "bert"), "position_embedding_type", "relative_key") ==
        "config.json: position_embedding_type: 'relative_key' is not supported; supported: absolute");
}

TEST_CASE("GTE of its authors stretches all texts") {
  json config = with_field(kConfig, "model_type", "new");
  config["position_embedding_type"] = "rope";
  config["rope_theta"] = 20000.0;
  config["rope_scaling"] = {{"type", "ntk"}, {"factor", 8.0}};
  const ModelSpec spec = described(config);
  check_common(spec);
  CHECK(test::mlp_of(spec).gated);
  CHECK(!spec.biases.up);
  const RopeSpec& rope = *test::attention_of(spec).rope;
  CHECK(rope.theta == 160000);
  CHECK(rope.scaling == RopeSpec::Scaling::kLinear);
  CHECK(rope.factor == doctest::Approx(std::pow(8.0, 2.0 / 8)));
  CHECK(test::attention_of(described(with_field(config, "rope_scaling", nullptr))).rope->theta == 20000);
  CHECK(test::refusal_of_field(config, "rope_scaling", {{"type", "linear"}, {"factor", 2.0}}) ==
        "config.json: rope_scaling.type: 'linear' is not supported; supported: ntk");
  CHECK(test::refusal_of_field(config, "logn_attention_scale", true) ==
        "config.json: logn_attention_scale: true is not supported");
}

TEST_CASE("EuroBERT is Llama that sees both sides") {
  const json config = with_field(with_field(kConfig, "model_type", "eurobert"), "num_key_value_heads", 2);
  const ModelSpec spec = described(config);
  CHECK(!spec.causal);
  CHECK(spec.has_head);
  CHECK(!spec.biases.head);
  CHECK(spec.norm.kind == NormSpec::Kind::kRms);
  CHECK(test::attention_of(spec).kv_heads == 2);
  CHECK(described(with_field(config, "mlp_bias", true)).biases.head);
  CHECK(!described(with_field(config, "architectures", {"EuroBertModel"})).has_head);
}

}  // namespace ballast::model::nomic_bert_test
