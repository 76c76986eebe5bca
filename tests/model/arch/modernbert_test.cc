#include <doctest/doctest.h>

#include <vector>

#include "described.h"
#include "layers.h"

namespace ballast::model::modernbert_test {

using nlohmann::json;
using test::described;
using test::with_field;

const json kConfig = {{"model_type", "modernbert"}, {"num_hidden_layers", 4},  {"hidden_size", 32},
                      {"num_attention_heads", 4},   {"intermediate_size", 40}, {"vocab_size", 10}};

std::vector<std::size_t> windows(const json& config) {
  std::vector<std::size_t> layers;
  for (const LayerSpec& layer : described(config).layers) layers.push_back(layer.attention()->window);
  return layers;
}

std::vector<double> thetas(const json& config) {
  std::vector<double> layers;
  for (const LayerSpec& layer : described(config).layers) layers.push_back(layer.attention()->rope->theta);
  return layers;
}

TEST_CASE("ModernBERT is bidirectional, and only its first block has no norm before attention") {
  const ModelSpec spec = described(kConfig);
  CHECK(!spec.causal);
  CHECK(spec.layout == BlockLayout::kPreNorm);
  CHECK(spec.norm.kind == NormSpec::Kind::kLayer);
  CHECK(!spec.norm.bias);
  CHECK(spec.embedding_norm);
  CHECK(spec.tied_embeddings);
  CHECK(spec.context_length == 8192);
  CHECK(test::mlp_of(spec).gated);
  CHECK(test::mlp_of(spec).activation == Activation::kGelu);
  CHECK(!spec.layers[0].mixer_norm);
  CHECK(spec.layers[1].mixer_norm);
  CHECK(spec.head_transform);
  CHECK(spec.biases.head);
  for (const bool bias : {spec.biases.query, spec.biases.attention_output, spec.biases.up, spec.biases.down,
                          spec.biases.head_transform}) {
    CHECK(!bias);
  }
}

TEST_CASE("ModernBERT's windows extend by half of local_attention to both sides, except in every third layer") {
  using Windows = std::vector<std::size_t>;
  CHECK(windows(kConfig) == Windows{0, 65, 65, 0});
  CHECK(windows(with_field(kConfig, "local_attention", 7)) == Windows{0, 4, 4, 0});
  CHECK(windows(with_field(kConfig, "global_attn_every_n_layers", 2)) == Windows{0, 65, 0, 65});
  json typed = with_field(kConfig, "local_attention", 1);
  typed["layer_types"] = {"sliding_attention", "full_attention", "full_attention", "sliding_attention"};
  CHECK(windows(typed) == Windows{1, 0, 0, 1});
}

TEST_CASE("ModernBERT's layers with a window have a rotation of their own, in both forms of config.json") {
  using Thetas = std::vector<double>;
  CHECK(thetas(kConfig) == Thetas{160000, 10000, 10000, 160000});
  json older = with_field(kConfig, "global_rope_theta", 5000.0);
  older["local_rope_theta"] = 300.0;
  CHECK(thetas(older) == Thetas{5000, 300, 300, 5000});
  older["local_rope_theta"] = nullptr;
  CHECK(thetas(older) == Thetas{5000, 5000, 5000, 5000});
  const json newer = {{"full_attention", {{"rope_type", "default"}, {"rope_theta", 700.0}}},
                      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 60.0}}}};
  CHECK(thetas(with_field(kConfig, "rope_parameters", newer)) == Thetas{700, 60, 60, 700});
}

TEST_CASE("ModernBERT's class determines whether it has a head") {
  const ModelSpec headless = described(with_field(kConfig, "architectures", {"ModernBertModel"}));
  CHECK(!headless.has_head);
  CHECK(!headless.head_transform);
  CHECK(!headless.biases.head);
  CHECK(described(with_field(kConfig, "architectures", {"ModernBertForMaskedLM"})).has_head);
  CHECK(described(with_field(kConfig, "classifier_bias", true)).biases.head_transform);
  CHECK(!described(with_field(kConfig, "decoder_bias", false)).biases.head);
}

TEST_CASE("ModernBERT's settings that are not supported are refused by field") {
  const auto refusal = [](const char* field, const json& value) {
    return test::refusal_of_field(kConfig, field, value);
  };
  CHECK(refusal("architectures", {"ModernBertForMultipleChoice"}) ==
        "config.json: architectures: 'ModernBertForMultipleChoice' is not supported; supported: ModernBertModel, "
        "ModernBertForMaskedLM, ModernBertForSequenceClassification, ModernBertForTokenClassification");
  CHECK(refusal("is_decoder", true) == "config.json: is_decoder: true is not supported");
  CHECK(refusal("hidden_activation", "mish") == test::Contains("hidden_activation: 'mish' is not supported"));
  CHECK(refusal("layer_types", {"full_attention"}) == "config.json: layer_types: has 1 entries for 4 layers");
  CHECK(refusal("num_attention_heads", 5) == "config.json: num_attention_heads: must divide the hidden size");
  CHECK(refusal("global_attn_every_n_layers", 0) ==
        test::Contains("global_attn_every_n_layers: must be between 1 and 2^31 - 1"));
}

}  // namespace ballast::model::modernbert_test
