#include <doctest/doctest.h>

#include <cmath>

#include <string>
#include <vector>

#include "described.h"
#include "layers.h"
#include "model_runs.h"
#include "temporary_directory.h"

namespace ballast::model::gemma_test {

using nlohmann::json;
using test::described;
using test::with_field;

json config_of(const char* model_type) {
  return {{"model_type", model_type}, {"num_hidden_layers", 7},  {"hidden_size", 32}, {"num_attention_heads", 4},
          {"num_key_value_heads", 4}, {"intermediate_size", 40}, {"vocab_size", 10}};
}

std::string refusal(const char* field, const json& value) {
  return test::refusal_of_field(config_of("gemma3_text"), field, value);
}

TEST_CASE("Gemma's gains are stored minus one, and embeddings scaled by a root in the weights' type") {
  for (const char* type : {"gemma", "gemma2", "gemma3_text"}) {
    CAPTURE(type);
    const ModelSpec spec = described(config_of(type));
    CHECK(spec.norm.gain_offset == 1.0);
    CHECK(spec.norm.epsilon == 1e-6);
    CHECK(spec.embedding_scale == std::sqrt(32.0F));
    CHECK(described(with_field(config_of(type), "dtype", "bfloat16")).embedding_scale == 5.65625);       // from 5.65685
    CHECK(described(with_field(config_of(type), "torch_dtype", "float16")).embedding_scale == 5.65625);  // from 5.65685
    json larger = with_field(config_of(type), "hidden_size", 3072);
    CHECK(described(with_field(larger, "dtype", "bfloat16")).embedding_scale == 55.5);
    CHECK(described(with_field(larger, "dtype", "float16")).embedding_scale == 55.4375);  // from 55.4256
    CHECK(spec.tied_embeddings);
    CHECK(test::attention_of(spec).head_size == 256);
    CHECK(test::attention_of(spec).scale == 1.0 / 16);
    CHECK(test::mlp_of(spec).gated);
    CHECK(test::mlp_of(spec).activation == Activation::kGeluTanh);
    CHECK(!spec.biases.query);
    CHECK(described(with_field(config_of(type), "attention_bias", true)).biases.attention_output);
  }
}

TEST_CASE("gelu in the first Gemma configurations means the tanh approximation") {
  CHECK(test::mlp_of(described(with_field(config_of("gemma"), "hidden_act", "gelu"))).activation ==
        Activation::kGeluTanh);
}

/// Checks window and rotation of each layer.
void check_layers(const json& config, const std::vector<bool>& sliding, std::size_t window, double local,
                  double global) {
  const ModelSpec spec = described(config);
  for (std::size_t layer = 0; layer < sliding.size(); ++layer) {
    CAPTURE(layer);
    CHECK(spec.layers[layer].attention()->window == (sliding[layer] ? window : 0));
    CHECK(spec.layers[layer].attention()->rope->theta == (sliding[layer] ? local : global));
  }
}

TEST_CASE("Gemma 2 caps scores and logits, and every second layer has full attention") {
  const ModelSpec spec = described(config_of("gemma2"));
  CHECK(spec.post_norms);
  CHECK(spec.context_length == 8192);
  CHECK(spec.logit_cap == 30.0);
  CHECK(!test::attention_of(spec).query_key_norm);
  CHECK(test::attention_of(spec).score_cap == 50.0);
  CHECK(test::attention_of(spec).kv_heads == 4);
  check_layers(config_of("gemma2"), {true, false, true, false, true, false, true}, 4096, 1e4, 1e4);
  CHECK(described(with_field(config_of("gemma2"), "final_logit_softcapping", nullptr)).logit_cap == 0.0);
  const ModelSpec uncapped = described(with_field(config_of("gemma2"), "attn_logit_softcapping", nullptr));
  CHECK(test::attention_of(uncapped).score_cap == 0.0);
  CHECK(test::refusal_of_field(config_of("gemma2"), "attn_logit_softcapping", 0) ==
        "config.json: attn_logit_softcapping: must be positive");
}

TEST_CASE("VaultGemma is Gemma 2 without output norms of attention and MLP") {
  const ModelSpec spec = described(config_of("vaultgemma"));
  ModelSpec gemma2 = described(config_of("gemma2"));
  CHECK(!spec.post_norms);
  CHECK(spec.layers == gemma2.layers);
  CHECK(spec.norm.gain_offset == 1.0);
  CHECK(spec.logit_cap == 30.0);
  CHECK(spec.embedding_scale == gemma2.embedding_scale);
  CHECK(spec.tied_embeddings);
  CHECK(spec.context_length == 8192);
}

TEST_CASE("Gemma 3 has norms before and after both halves, of queries and keys, and a scale of its own") {
  const ModelSpec spec = described(config_of("gemma3_text"));
  CHECK(spec.layout == BlockLayout::kPreNorm);
  CHECK(spec.post_norms);
  CHECK(test::attention_of(spec).query_key_norm);
  CHECK(described(with_field(config_of("gemma3_text"), "query_pre_attn_scalar", 16)).layers[0].attention()->scale ==
        0.25);
  CHECK(spec.logit_cap == 0.0);
  CHECK(described(with_field(config_of("gemma3_text"), "final_logit_softcapping", 30.0)).logit_cap == 30.0);
}

TEST_CASE("every sixth layer of Gemma 3 has full attention unless a list or a pattern overrides it") {
  json config = config_of("gemma3_text");
  check_layers(config, {true, true, true, true, true, false, true}, 4096, 1e4, 1e6);
  config["sliding_window"] = 512;
  config["sliding_window_pattern"] = 3;
  check_layers(config, {true, true, false, true, true, false, true}, 512, 1e4, 1e6);
  config["layer_types"] = std::vector<std::string>(7, "full_attention");
  check_layers(config, std::vector<bool>(7, false), 512, 1e4, 1e6);
}

TEST_CASE("both generations of Gemma 3's configurations rotate the two types of layers alike") {
  json before = config_of("gemma3_text");
  before["rope_theta"] = 2e6;
  before["rope_local_base_freq"] = 2e4;
  before["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 8.0}};
  json now = config_of("gemma3_text");
  now["rope_parameters"] = {{"full_attention", {{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 2e6}}},
                            {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 2e4}}}};
  for (const json& config : {before, now}) {
    check_layers(config, {true, true, true, true, true, false, true}, 4096, 2e4, 2e6);
    const ModelSpec spec = described(config);
    CHECK(spec.layers[0].attention()->rope->scaling == RopeSpec::Scaling::kNone);
    CHECK(spec.layers[0].attention()->rope->rotary_size == 256);
    CHECK(spec.layers[5].attention()->rope->scaling == RopeSpec::Scaling::kLinear);
    CHECK(spec.layers[5].attention()->rope->factor == 8.0);
  }
  now["rope_parameters"].erase("full_attention");
  check_layers(now, {true, true, true, true, true, false, true}, 4096, 2e4, 1e6);
}

TEST_CASE("a multimodal Gemma 3 is read as its text model, under any of its tensor names") {
  const test::Golden golden = test::read_golden("gemma3_text");
  const test::TinyModel text = test::read_model(test::golden_model("gemma3_text"));
  for (const std::string prefix : {"model.", "model.language_model.", "language_model.model."}) {
    CAPTURE(prefix);
    test::TinyModel model;
    model.config = {{"model_type", "gemma3"}, {"text_config", text.config}};
    for (const auto& [name, tensor] : text.tensors) model.tensors[prefix + name.substr(6)] = tensor;
    model.tensors["vision_tower.weight"] = {{1}, {0.0F}};
    const test::TemporaryDirectory directory;
    const Model loaded(model.write(directory / "model"));
    CHECK(test::relative_error(test::run_at_once(loaded, golden.ids[0]), golden.logits[0]) <= 1e-4);
  }
}

TEST_CASE("fields that a Gemma 3 with images omits have the defaults of its configuration class") {
  const json config = {{"model_type", "gemma3"}, {"text_config", {{"hidden_size", 2560}, {"num_hidden_layers", 34}}}};
  const ModelSpec spec = described(config);
  CHECK(spec.vocab_size == 262208);
  CHECK(spec.hidden_size == 2560);
  CHECK(spec.layers.size() == 34);
  CHECK(test::attention_of(spec).heads == 8);
  CHECK(test::attention_of(spec).kv_heads == 4);
  CHECK(test::mlp_of(spec).size == 9216);
  CHECK(spec.tied_embeddings);
  CHECK(!described(with_field(config, "tie_word_embeddings", false)).tied_embeddings);
  json refused = config;
  refused["text_config"]["attn_logit_softcapping"] = 50.0;
  CHECK(test::error_message([&] { described(refused); }) ==
        "config.json: text_config: attn_logit_softcapping: is not supported");
  CHECK(test::refusal_of_field(config, "text_config", nullptr) == "config.json: text_config: missing");
}

TEST_CASE("a bidirectional Gemma 3 divides its window between both sides and may lack a head") {
  json config = with_field(config_of("gemma3_text"), "use_bidirectional_attention", true);
  config["sliding_window"] = 512;
  const ModelSpec with_head = described(config);
  CHECK(!with_head.causal);
  CHECK(with_head.has_head);
  CHECK(with_head.layers[0].attention()->window == 257);
  config["architectures"] = {"Gemma3TextModel"};
  CHECK(!described(config).has_head);
  config["use_bidirectional_attention"] = false;
  CHECK(described(config).has_head);
  CHECK(described(config).layers[0].attention()->window == 512);
}

TEST_CASE("Gemma's settings that are not supported are refused by field") {
  for (const char* type : {"gemma", "gemma2", "vaultgemma"}) {
    CHECK(test::refusal_of_field(config_of(type), "use_bidirectional_attention", true) ==
          "config.json: use_bidirectional_attention: true is not supported");
  }
  CHECK(refusal("attn_logit_softcapping", 50.0) == "config.json: attn_logit_softcapping: is not supported");
  CHECK(refusal("attn_logit_softcapping", nullptr) == "no error");
  CHECK(refusal("sliding_window", nullptr) == "config.json: sliding_window: missing");
  CHECK(refusal("rope_parameters", {{"rope_theta", 1e4}}) ==
        "config.json: rope_parameters.rope_theta: is not a type of layers; supported: full_attention, "
        "sliding_attention");
  CHECK(refusal("rope_parameters", {{"full_attention", {{"rope_type", "ntk"}}}}) ==
        test::Contains("rope_parameters.full_attention.rope_type: 'ntk' is not supported"));
  CHECK(refusal("query_pre_attn_scalar", 0) == "config.json: query_pre_attn_scalar: must be positive");
}

}  // namespace ballast::model::gemma_test
