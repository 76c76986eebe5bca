#include "quant/passes/fold_rules.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "error_message.h"
#include "layers.h"
#include "model/arch/architecture.h"
#include "model/mixer/mixer_kind.h"
#include "model/structure/block_structure.h"

namespace ballast::quant {
namespace {

using model::Role;
using nlohmann::json;
using test::Contains;
using Drop = KeyBiasRuling::Drop;

const json kDecoder = {{"vocab_size", 257},
                       {"hidden_size", 64},
                       {"num_hidden_layers", 3},
                       {"num_attention_heads", 4},
                       {"num_key_value_heads", 2},
                       {"intermediate_size", 160},
                       {"max_position_embeddings", 256},
                       {"head_dim", 16}};

ModelSpec spec_of(const std::string& model_type, const json& more = json::object()) {
  json config = kDecoder;
  config.update(more);
  const model::Architecture& architecture = model::architecture_for_model_type(model_type, "test");
  ModelSpec spec = architecture.describe(files::JsonReader(config, "config.json"));
  spec.architecture = model_type;
  return spec;
}

ModelSpec gpt2() {
  return spec_of("gpt2", {{"n_layer", 3}, {"n_embd", 64}, {"n_head", 4}, {"n_positions", 256}});
}

ModelSpec qwen3_next() {
  return spec_of("qwen3_next", {{"attention_bias", true},
                                {"layer_types", {"linear_attention", "full_attention", "full_attention"}},
                                {"num_experts", 0}});
}

ModelSpec deepseek_v3() {
  return spec_of("deepseek_v3", {{"num_key_value_heads", 4},
                                 {"moe_intermediate_size", 48},
                                 {"n_routed_experts", 8},
                                 {"num_experts_per_tok", 2},
                                 {"routed_scaling_factor", 2.5},
                                 {"n_group", 2},
                                 {"topk_group", 1},
                                 {"n_shared_experts", 1},
                                 {"first_k_dense_replace", 1},
                                 {"q_lora_rank", 32},
                                 {"kv_lora_rank", 24},
                                 {"qk_nope_head_dim", 16},
                                 {"qk_rope_head_dim", 8},
                                 {"v_head_dim", 16}});
}

/// All models here have three layers.
constexpr std::size_t kLast = 2;

model::ValuePath values_of(const ModelSpec& spec) {
  return *model::value_path(spec.layers.back());
}

TEST_CASE("without positions in queries and keys the keys' bias is dropped") {
  for (const ModelSpec& spec : {gpt2(), spec_of("bert")}) {
    CAPTURE(spec.architecture);
    CHECK(key_bias_drop(spec.layers.back()).drop == Drop::kWhole);
    CHECK(key_bias_drop(spec.layers.back()).reason == Contains("which softmax drops"));
    CHECK(values_of(spec).bias.legal);
  }
}

TEST_CASE("under RoPE the keys' bias stays, sliding window or not") {
  for (const char* type : {"llama", "mistral", "qwen2", "gopher"}) {
    CAPTURE(type);
    const ModelSpec spec = spec_of(type, {{"sliding_window", 16}, {"use_sliding_window", true}});
    CHECK(key_bias_drop(spec.layers.back()).drop == Drop::kNone);
    CHECK(key_bias_drop(spec.layers.back()).reason == Contains("rotated"));
    CHECK(values_of(spec).bias.legal);
    CHECK(values_of(spec).rotation.legal);
  }
}

TEST_CASE("if a part of a head is rotated, the bias of the other channels of keys is dropped") {
  const ModelSpec spec = spec_of("gpt_neox");
  CHECK(key_bias_drop(spec.layers.back()).drop == Drop::kUnrotated);
  CHECK(key_bias_drop(spec.layers.back()).reason == Contains("channels from 4 on of each head are not rotated"));
}

TEST_CASE("with a key norm the keys' bias stays, even without rotation") {
  ModelSpec spec = gpt2();
  for_each_attention(spec, [](AttentionSpec& attention) { attention.query_key_norm = HeadNormSpec{}; });
  CHECK(key_bias_drop(spec.layers.back()).drop == Drop::kNone);
  CHECK(key_bias_drop(spec.layers.back()).reason == Contains("key norm"));
  CHECK(!gain_fold(spec_of("qwen3"), kLast, Role::kKeyNorm).legal);
  CHECK(!gain_fold(spec, kLast, Role::kQueryNorm).legal);
}

TEST_CASE("the gain of a norm after the rotation stays, because the score follows") {
  ModelSpec spec = spec_of("qwen3");
  CHECK(gain_fold(spec, kLast, Role::kKeyNorm).reason == Contains("the rotation follows"));
  for_each_attention(spec, [](AttentionSpec& attention) { attention.query_key_norm->after_rotation = true; });
  CHECK(!gain_fold(spec, kLast, Role::kKeyNorm).legal);
  CHECK(gain_fold(spec, kLast, Role::kKeyNorm).reason == Contains("the score follows"));
}

TEST_CASE("an output gate keeps the values' bias and their rotation") {
  ModelSpec spec = qwen3_next();
  CHECK(!values_of(spec).bias.legal);
  CHECK(values_of(spec).bias.reason == Contains("gate multiplies it, by element"));
  CHECK(!values_of(spec).rotation.legal);
  CHECK(values_of(spec).scaling.legal);
  CHECK(key_bias_drop(spec.layers.back()).drop == Drop::kNone);
  CHECK(key_bias_drop(spec.layers.back()).reason == Contains("key norm"));
}

TEST_CASE("with one gate per head the values' bias stays, and their scaling and rotation are legal") {
  ModelSpec spec = qwen3_next();
  for_each_attention(spec, [](AttentionSpec& attention) { attention.head_gates = true; });
  CHECK(!values_of(spec).bias.legal);
  CHECK(values_of(spec).bias.reason == "the output gate multiplies it, differently for every token");
  CHECK(values_of(spec).scaling.legal);
  CHECK(values_of(spec).rotation.legal);
  CHECK(values_of(spec).rotation.reason == Contains("all channels of a head by one factor"));
  for_each_attention(spec, [](AttentionSpec& attention) { attention.shares_keys = true; });
  CHECK(!values_of(spec).scaling.legal);
  CHECK(!values_of(spec).rotation.legal);
  CHECK(values_of(spec).rotation.reason == "later layers read its values, too");
}

TEST_CASE("a short convolution's channels scale unless it adds a bias, and its projections' biases stay") {
  ModelSpec spec = spec_of("lfm2");
  for (const bool bias : {false, true}) {
    spec.layers[kLast].mixer = ShortConvolutionSpec{.channels = 8, .width = 3, .bias = bias};
    CHECK(!values_of(spec).bias.legal);
    CHECK(values_of(spec).scaling.legal == !bias);
    CHECK(!values_of(spec).rotation.legal);
  }
  CHECK(values_of(spec).scaling.reason == Contains("the convolution adds a bias"));
  CHECK(why_bias_stays(spec.layers[kLast], Role::kConvolutionInputGate) == Contains("convolution's input follows"));
  CHECK(why_bias_stays(spec.layers[kLast], Role::kConvolutionOutputGate) == Contains("convolution's output follows"));
  CHECK(why_bias_stays(spec.layers[kLast], Role::kConvolutionOutput) == Contains("added to the residual stream"));
}

TEST_CASE("latent vectors' norms fold, and the plain part of a latent key needs no bias") {
  const ModelSpec spec = deepseek_v3();
  CHECK(gain_fold(spec, kLast, Role::kQueryDownNorm).legal);
  CHECK(gain_fold(spec, kLast, Role::kKeyValueDownNorm).legal);
  CHECK(gain_fold(spec, kLast, Role::kMlpNorm).legal);
  CHECK(key_bias_drop(spec.layers.back()).drop == Drop::kWhole);
  CHECK(values_of(spec).scaling.legal);
  CHECK(values_of(spec).rotation.legal);
  CHECK(why_bias_stays(spec.layers.back(), Role::kKeyValueDown) == Contains("norm follows"));
  CHECK(why_bias_stays(spec.layers.back(), Role::kKeyPosition) == Contains("rotated"));
}

TEST_CASE("a norm folds if and only if only linears read it") {
  for (const ModelSpec& spec : {spec_of("llama"), gpt2(), spec_of("bert"), spec_of("gpt_neox"), qwen3_next(),
                                deepseek_v3(), spec_of("palm", {{"num_key_value_heads", 1}}), spec_of("qwen3"),
                                spec_of("olmo2"), spec_of("glm4"), spec_of("cohere2")}) {
    CAPTURE(spec.architecture);
    for (std::size_t layer = 0; layer < spec.layers.size(); ++layer) {
      for (const Role norm : model::block_norms(spec, layer)) {
        bool read_by_linears = false;
        for (const model::BlockInput& input : model::block_inputs(spec, layer)) {
          read_by_linears |= input.norm == norm || input.gated_norm == norm;
        }
        CHECK(gain_fold(spec, layer, norm).legal == read_by_linears);
      }
    }
  }
}

TEST_CASE("the final norm folds only into an untied head") {
  ModelSpec spec = spec_of("llama");
  CHECK(gain_fold(spec, kLast, Role::kFinalNorm).legal);
  spec.tied_embeddings = true;
  CHECK(!gain_fold(spec, kLast, Role::kFinalNorm).legal);
  CHECK(gain_fold(spec, kLast, Role::kFinalNorm).reason == Contains("--untie-head"));
  ModelSpec bert = spec_of("bert");
  CHECK(!gain_fold(bert, kLast, Role::kHeadNorm).legal);
  bert.tied_embeddings = false;
  CHECK(norm_bias_fold(bert, kLast, Role::kHeadNorm).legal);
}

TEST_CASE("LayerNorm becomes RMSNorm only if only linears write the stream and the head is untied") {
  CHECK(layer_norm_to_rms(spec_of("gpt_neox")).legal);
  CHECK(!layer_norm_to_rms(gpt2()).legal);
  ModelSpec untied = gpt2();
  untied.tied_embeddings = false;
  CHECK(layer_norm_to_rms(untied).legal);
  untied.embedding_norm = true;
  CHECK(!layer_norm_to_rms(untied).legal);
  ModelSpec bert = spec_of("bert");
  bert.tied_embeddings = false;
  CHECK(!layer_norm_to_rms(bert).legal);
  CHECK(!layer_norm_to_rms(spec_of("llama")).legal);
}

TEST_CASE("a stream that a mixer reads without a norm is neither centred nor rotated") {
  ModelSpec spec = spec_of("gpt_neox");
  CHECK(layer_norm_to_rms(spec).legal);
  spec.layers[1].mixer_norm = false;
  CHECK(layer_norm_to_rms(spec).reason == Contains("a mixer reads the residual stream itself"));
  spec = spec_of("llama");
  CHECK(residual_rotation(spec, true).legal);
  spec.layers[1].mixer_norm = false;
  CHECK(residual_rotation(spec, true).reason == Contains("a mixer reads the residual stream itself"));
}

TEST_CASE("the final norm of a model without a head keeps its gain") {
  ModelSpec spec = spec_of("llama", {{"tie_word_embeddings", false}});
  CHECK(gain_fold(spec, kLast, Role::kFinalNorm).legal);
  spec.has_head = false;
  CHECK(gain_fold(spec, kLast, Role::kFinalNorm).reason == "what it writes is what the model gives");
  CHECK(!norm_bias_fold(spec, kLast, Role::kFinalNorm).legal);
}

TEST_CASE("output norms keep their gains, and with them the stream is neither centred nor rotated") {
  for (const char* type : {"gemma3_text", "glm4", "olmo2"}) {
    CAPTURE(type);
    ModelSpec spec = spec_of(type, {{"tie_word_embeddings", false}});
    const bool output_norm = spec.layout == BlockLayout::kOutputNorm;
    const Role norm = output_norm ? Role::kMlpNorm : Role::kMlpPostNorm;
    CHECK(gain_fold(spec, kLast, norm).reason == "what it writes is added to the residual stream");
    CHECK(gain_fold(spec, kLast, Role::kAttentionNorm).legal == !output_norm);
    CHECK(gain_fold(spec, kLast, Role::kFinalNorm).legal);
    CHECK(residual_rotation(spec, true).reason == Contains("norms write what is added to the residual stream"));
    spec.norm.kind = NormSpec::Kind::kLayer;
    CHECK(layer_norm_to_rms(spec).reason == Contains("norms write what is added to the residual stream"));
  }
}

TEST_CASE("the keys' bias is dropped only in layers without rotation") {
  const ModelSpec spec = spec_of("smollm3", {{"attention_bias", true}, {"no_rope_layers", {1, 0, 1}}});
  CHECK(key_bias_drop(spec.layers[0]).drop == Drop::kNone);
  CHECK(key_bias_drop(spec.layers[1]).drop == Drop::kWhole);
  CHECK(key_bias_drop(spec.layers[2]).drop == Drop::kNone);
}

TEST_CASE("a cap on the scores, a norm of the values and a sink logit keep biases") {
  ModelSpec capped = spec_of("gemma2", {{"attention_bias", true}});
  test::attention_of(capped).rope.reset();
  CHECK(key_bias_drop(capped.layers[0]).drop == Drop::kNone);
  CHECK(values_of(capped).bias.legal);
  const ModelSpec normed = spec_of("gemma4_text", {{"hidden_size_per_layer_input", 0}, {"attention_k_eq_v", true}});
  const model::ValuePath own = *model::value_path(normed.layers[0]);
  CHECK(!own.bias.legal);
  CHECK(!own.scaling.legal);
  CHECK(own.rotation.legal);
  CHECK(values_of(normed).value == Role::kKey);
  CHECK(!values_of(normed).rotation.legal);
  ModelSpec with_logits = spec_of("llama");
  test::attention_of(with_logits).rope.reset();
  CHECK(key_bias_drop(with_logits.layers[0]).drop == Drop::kWhole);
  for_each_attention(with_logits, [](AttentionSpec& attention) { attention.sink_logits = true; });
  CHECK(key_bias_drop(with_logits.layers[0]).drop == Drop::kNone);
  CHECK(!values_of(with_logits).bias.legal);
  CHECK(values_of(with_logits).scaling.legal);
}

TEST_CASE("a norm's bias stays if experts read the norm times their weights") {
  ModelSpec spec = deepseek_v3();
  spec.norm = {.kind = NormSpec::Kind::kLayer, .epsilon = 1e-5, .bias = true};
  spec.layers[kLast].mlp.experts->weighs_inputs = true;
  CHECK(!norm_bias_fold(spec, kLast, Role::kMlpNorm).legal);
  CHECK(norm_bias_fold(spec, kLast, Role::kAttentionNorm).legal);
  CHECK(gain_fold(spec, kLast, Role::kMlpNorm).legal);
}

TEST_CASE("a norm's bias folds into a router, but not into that of a shared MLP") {
  ModelSpec spec = deepseek_v3();
  spec.norm = {.kind = NormSpec::Kind::kLayer, .epsilon = 1e-5, .bias = true};
  CHECK(norm_bias_fold(spec, kLast, Role::kAttentionNorm).legal);
  CHECK(norm_bias_fold(spec, kLast, Role::kMlpNorm).legal);
  spec.layers[kLast].mlp.experts->shared_router = true;
  CHECK(!norm_bias_fold(spec, kLast, Role::kMlpNorm).legal);
  CHECK(gain_fold(spec, kLast, Role::kMlpNorm).legal);
  spec.layout = BlockLayout::kParallelShared;
  CHECK(!norm_bias_fold(spec, kLast, Role::kAttentionNorm).legal);
}

TEST_CASE("up scales against down through a gate or a ReLU") {
  CHECK(up_scaling(test::mlp_of(spec_of("llama"))).legal);
  ModelSpec limited = spec_of("llama");
  test::mlp_of(limited).limit = 7.0;
  CHECK(!up_scaling(test::mlp_of(limited)).legal);
  CHECK(!up_scaling(test::mlp_of(gpt2())).legal);
  CHECK(up_scaling(test::mlp_of(spec_of("gopher", {{"hidden_act", "relu"}}))).legal);
  CHECK(!up_scaling(test::mlp_of(spec_of("gopher"))).legal);
}

TEST_CASE("the residual stream rotates only with RMSNorms without gain and bias, and with an untied head") {
  for (const char* type : {"llama", "mistral", "qwen3"}) {
    CAPTURE(type);
    ModelSpec spec = spec_of(type);
    spec.tied_embeddings = true;
    CHECK(residual_rotation(spec, true).reason == Contains("--untie-head"));
    spec.tied_embeddings = false;
    CHECK(residual_rotation(spec, true).legal);
    CHECK(residual_rotation(spec, false).reason == Contains("fold_norms off"));
    spec.norm.bias = true;
    CHECK(residual_rotation(spec, true).reason == Contains("keep biases"));
  }
  CHECK(residual_rotation(deepseek_v3(), true).legal);
  CHECK(residual_rotation(gpt2(), true).reason == Contains("LayerNorm"));
  CHECK(residual_rotation(spec_of("bert"), true).reason == Contains("norms write the residual stream"));
  ModelSpec odd = spec_of("llama", {{"tie_word_embeddings", false}});
  odd.hidden_size = 66;
  CHECK(residual_rotation(odd, true).reason == "no Hadamard matrix of order 66 is known here");
}

}  // namespace
}  // namespace ballast::quant
