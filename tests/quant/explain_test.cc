#include "ballast/explain.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "error_message.h"
#include "layers.h"
#include "tiny_model.h"

namespace ballast {
namespace {

using test::Contains;
using Outcome = FoldLine::Outcome;

ModelSpec decoder(const std::string& architecture) {
  ModelSpec spec;
  spec.architecture = architecture;
  spec.hidden_size = 64;
  spec.vocab_size = 257;
  const AttentionSpec attention = {
      .heads = 4, .kv_heads = 2, .head_size = 16, .value_size = 16, .rope = RopeSpec{.rotary_size = 16}};
  spec.layers.assign(3, {.mixer = attention, .mlp = {.size = 160}});
  return spec;
}

ModelSpec qwen2() {
  ModelSpec spec = decoder("qwen2");
  spec.tied_embeddings = true;
  spec.biases = {.query = true, .key = true, .value = true};
  return spec;
}

ModelSpec gpt2() {
  ModelSpec spec = decoder("gpt2");
  spec.tied_embeddings = true;
  spec.norm = {.kind = NormSpec::Kind::kLayer, .epsilon = 1e-5, .bias = true};
  spec.learned_positions = true;
  for (LayerSpec& layer : spec.layers) {
    layer.attention()->rope.reset();
    layer.attention()->kv_heads = layer.attention()->heads;
    layer.mlp.gated = false;
  }
  spec.biases = {.query = true, .key = true, .value = true, .attention_output = true, .up = true, .down = true};
  return spec;
}

ModelSpec bert() {
  ModelSpec spec = gpt2();
  spec.architecture = "bert";
  spec.layout = BlockLayout::kPostNorm;
  spec.embedding_norm = true;
  spec.head_transform = Activation::kGelu;
  spec.biases.head = true;
  return spec;
}

ModelSpec gpt_neox() {
  ModelSpec spec = gpt2();
  spec.architecture = "gpt_neox";
  spec.layout = BlockLayout::kParallel;
  spec.tied_embeddings = false;
  spec.learned_positions = false;
  for_each_attention(spec, [](AttentionSpec& attention) { attention.rope = RopeSpec{.rotary_size = 4}; });
  return spec;
}

ModelSpec qwen3_next() {
  ModelSpec spec = decoder("qwen3_next");
  spec.biases = {.query = true, .key = true, .value = true, .attention_output = true};
  for_each_attention(spec, [](AttentionSpec& attention) {
    attention.query_key_norm = HeadNormSpec{};
    attention.output_gate = true;
  });
  return spec;
}

FoldLine line_about(const std::vector<FoldLine>& lines, const std::string& what) {
  const auto it = std::ranges::find(lines, what, &FoldLine::what);
  REQUIRE_MESSAGE(it != lines.end(), what);
  return *it;
}

FoldLine line_about(const ModelSpec& spec, const std::string& what) {
  return line_about(explain_folds(spec, recipe_for_scheme("f32")), what);
}

TEST_CASE("qwen2 keeps the keys' bias and folds the values'") {
  const FoldLine key = line_about(qwen2(), "model.layers.*.self_attn.k_proj bias");
  CHECK(key.outcome == Outcome::kKept);
  CHECK(key.reason == Contains("rotated with each key's position"));
  const FoldLine value = line_about(qwen2(), "model.layers.*.self_attn.v_proj bias");
  CHECK(value.outcome == Outcome::kFolded);
  CHECK(value.into == "model.layers.*.self_attn.o_proj bias");
  CHECK(value.reason == Contains("sum to 1"));
  CHECK(line_about(qwen2(), "model.layers.*.self_attn.q_proj bias").reason == "it meets every key differently");
  CHECK(line_about(qwen2(), "model.norm gain").outcome == Outcome::kKept);
}

TEST_CASE("gpt2 and bert drop the keys' bias and fold the values'") {
  CHECK(line_about(gpt2(), "transformer.h.*.attn.k_attn bias").outcome == Outcome::kDropped);
  CHECK(line_about(gpt2(), "transformer.h.*.attn.v_attn bias").outcome == Outcome::kFolded);
  CHECK(line_about(gpt2(), "transformer.h.*.ln_1 bias").into ==
        "transformer.h.*.attn.q_attn bias, transformer.h.*.attn.k_attn bias, transformer.h.*.attn.v_attn bias");
  CHECK(line_about(bert(), "bert.encoder.layer.*.attention.self.key bias").outcome == Outcome::kDropped);
  CHECK(line_about(bert(), "bert.encoder.layer.*.attention.self.value bias").outcome == Outcome::kFolded);
  const FoldLine norm = line_about(bert(), "bert.encoder.layer.*.output.LayerNorm bias");
  CHECK(norm.outcome == Outcome::kKept);
  CHECK(norm.reason == Contains("residual stream"));
}

TEST_CASE("qwen3_next folds neither and reports the reason") {
  const FoldLine key = line_about(qwen3_next(), "model.layers.*.self_attn.k_proj bias");
  CHECK(key.outcome == Outcome::kKept);
  CHECK(key.reason == Contains("key norm stands between it and the score"));
  const FoldLine value = line_about(qwen3_next(), "model.layers.*.self_attn.v_proj bias");
  CHECK(value.outcome == Outcome::kKept);
  CHECK(value.reason == Contains("output gate multiplies it"));
}

TEST_CASE("gpt_neox drops the part of the keys' bias that is not rotated") {
  const FoldLine key = line_about(gpt_neox(), "gpt_neox.layers.*.attention.key bias");
  CHECK(key.outcome == Outcome::kPartDropped);
  CHECK(key.reason == Contains("channels from 4 on"));
  CHECK(line_about(gpt_neox(), "LayerNorm to RMSNorm").outcome == Outcome::kApplied);
  CHECK(line_about(gpt_neox(), "gpt_neox.final_layer_norm bias").into == "embed_out bias");
}

TEST_CASE("every gain and bias of a model has one line") {
  const std::vector<FoldLine> lines = explain_folds(gpt2(), recipe_for_scheme("f32"));
  std::vector<std::string> names;
  for (const FoldLine& line : lines) {
    names.push_back(line.what);
    CHECK(!line.reason.empty());
    CHECK((line.outcome == Outcome::kFolded) == !line.into.empty());
  }
  CHECK(names == std::vector<std::string>{
                     "transformer.h.*.ln_1 gain", "transformer.h.*.ln_1 bias", "transformer.h.*.attn.q_attn bias",
                     "transformer.h.*.attn.k_attn bias", "transformer.h.*.attn.v_attn bias",
                     "transformer.h.*.attn.c_proj bias", "transformer.h.*.ln_2 gain", "transformer.h.*.ln_2 bias",
                     "transformer.h.*.mlp.c_fc bias", "transformer.h.*.mlp.c_proj bias", "transformer.ln_f gain",
                     "transformer.ln_f bias", "head", "LayerNorm to RMSNorm",
                     "scaling of what norms write against what reads it",
                     "scaling of values against the output projection", "scaling of up against down",
                     "rotation of the residual stream", "rotation of each head's values"});
}

TEST_CASE("parts that the recipe disables are kept, and their lines report it") {
  Recipe recipe = recipe_for_scheme("f32");
  recipe.fold_biases = recipe.fold_norms = recipe.center_norms = false;
  for (const FoldLine& line : explain_folds(gpt_neox(), recipe)) {
    CAPTURE(line.what);
    CHECK(line.outcome == Outcome::kKept);
  }
  CHECK(line_about(explain_folds(gpt2(), recipe), "transformer.h.*.attn.k_attn bias").reason ==
        "could be dropped, but the recipe has fold_biases off");
}

TEST_CASE("an untied head lets the final norm fold and LayerNorms become RMSNorms") {
  Recipe recipe = recipe_for_scheme("f32");
  recipe.untie_head = recipe.equalize = recipe.smooth = recipe.rotate = recipe.rotate_values = true;
  const std::vector<FoldLine> lines = explain_folds(gpt2(), recipe);
  CHECK(line_about(lines, "head").outcome == Outcome::kApplied);
  CHECK(line_about(lines, "transformer.ln_f gain").into == "lm_head");
  CHECK(line_about(lines, "LayerNorm to RMSNorm").outcome == Outcome::kApplied);
  CHECK(line_about(lines, "rotation of each head's values").outcome == Outcome::kApplied);
  CHECK(line_about(lines, "scaling of up against down").outcome == Outcome::kKept);
  CHECK(line_about(lines, "scaling of what norms write against what reads it").outcome == Outcome::kApplied);
  CHECK(line_about(lines, "rotation of the residual stream").outcome == Outcome::kApplied);
}

TEST_CASE("layers with experts and without are both explained") {
  ModelSpec spec = decoder("deepseek_v3");
  for_each_attention(spec, [](AttentionSpec& attention) {
    attention.kv_heads = attention.heads;
    attention.rope->rotary_size = 8;
  });
  test::make_latent(spec, 0, 24);
  for (const std::size_t layer : {1, 2}) {
    spec.layers[layer].mlp.experts = ExpertSpec{.count = 8, .per_token = 2, .size = 48, .shared_size = 48};
  }
  spec.biases.latent = spec.biases.up = true;
  const std::vector<FoldLine> lines = explain_folds(spec, recipe_for_scheme("f32"));
  CHECK(line_about(lines, "model.layers.*.mlp.up_proj bias").outcome == Outcome::kKept);
  CHECK(line_about(lines, "model.layers.*.mlp.experts.*.up_proj bias").outcome == Outcome::kKept);
  CHECK(line_about(lines, "model.layers.*.self_attn.kv_a_proj bias").reason == Contains("norm follows"));
  CHECK(line_about(lines, "model.layers.*.self_attn.kv_a_layernorm gain").into ==
        "model.layers.*.self_attn.k_b_proj, model.layers.*.self_attn.v_b_proj");
}

ModelSpec mamba(Mamba2Spec::Norm norm) {
  ModelSpec spec = decoder("granitemoehybrid");
  for (const std::size_t layer : {0, 2}) {
    spec.layers[layer].mixer = Mamba2Spec{.heads = 4, .head_size = 8, .state_size = 6, .width = 4, .norm = norm};
  }
  spec.biases.mixer_input = spec.biases.mixer_output = true;
  return spec;
}

TEST_CASE("gains of Mamba 2's norms fold, before or after the gate, and biases before an activation stay") {
  for (const auto norm : {Mamba2Spec::Norm::kBeforeGate, Mamba2Spec::Norm::kAfterGate}) {
    const ModelSpec spec = mamba(norm);
    const FoldLine gain = line_about(spec, "model.layers.*.mamba.norm gain");
    CHECK(gain.outcome == Outcome::kFolded);
    CHECK(gain.into == "model.layers.*.mamba.out_proj");
    CHECK(gain.reason == (norm == Mamba2Spec::Norm::kBeforeGate
                              ? Contains("a gate multiplies it by element, then only a linear reads it")
                              : Contains("only the output projection reads it")));
    CHECK(line_about(spec, "model.layers.*.input_layernorm gain").into ==
          "model.layers.*.mamba.z_proj, model.layers.*.mamba.x_proj, model.layers.*.mamba.b_proj, "
          "model.layers.*.mamba.c_proj, model.layers.*.mamba.dt_proj");
    CHECK(line_about(spec, "model.layers.*.mamba.x_proj bias").reason == Contains("first tokens see fewer biases"));
    CHECK(line_about(spec, "model.layers.*.mamba.z_proj bias").reason == Contains("the activation follows"));
    CHECK(line_about(spec, "model.layers.*.mamba.out_proj bias").reason == Contains("added to the residual stream"));
    CHECK(line_about(spec, "scaling of what a convolution reads against its taps").reason ==
          Contains("each channel is convolved by itself"));
  }
  for (const FoldLine& line : explain_folds(mamba(Mamba2Spec::Norm::kNone), recipe_for_scheme("f32"))) {
    CHECK(line.what != "model.layers.*.mamba.norm gain");
  }
}

TEST_CASE("the JSON of the lines has subject, outcome and reason of each") {
  const std::vector<FoldLine> lines = explain_folds(qwen2(), recipe_for_scheme("f32"));
  const nlohmann::json parsed = nlohmann::json::parse(fold_lines_json(lines));
  REQUIRE(parsed.at("folds").size() == lines.size());
  const nlohmann::json& first = parsed.at("folds").at(0);
  CHECK(first.at("what") == "model.layers.*.input_layernorm gain");
  CHECK(first.at("outcome") == "folded");
  CHECK(first.contains("into"));
  CHECK(!first.at("reason").get<std::string>().empty());
}

TEST_CASE("folds whose results an output format cannot hold are not applied for it") {
  const auto folded_biases = [](OutputFormat format) {
    const auto lines = explain_folds(test::golden_model("qwen2"), recipe_for_scheme("w4a16"), format);
    return std::ranges::count_if(
        lines, [](const FoldLine& line) { return line.outcome == Outcome::kFolded && line.what.ends_with("bias"); });
  };
  CHECK(folded_biases(OutputFormat::kBallast) > 0);
  CHECK(folded_biases(OutputFormat::kMlx) == 0);
}

}  // namespace
}  // namespace ballast
