#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "family_model.h"
#include "layers.h"

namespace ballast::model::megatron_test {

using nlohmann::json;
using test::described;
using test::RoleTensors;
using test::TinyModel;

const json kConfig = {{"model_type", "megatron"},     {"num_layers", 2},       {"hidden_size", 32},
                      {"num_attention_heads", 4},     {"num_query_groups", 2}, {"vocab_size", 10},
                      {"max_position_embeddings", 32}};

// What Megatron-LM's arguments give for a Qwen2-like model: --add-qkv-bias --disable-bias-linear --swiglu ...
const json kModern = {{"model_type", "megatron"},
                      {"num_layers", 2},
                      {"hidden_size", 32},
                      {"ffn_hidden_size", 40},
                      {"num_attention_heads", 4},
                      {"num_query_groups", 2},
                      {"vocab_size", 10},
                      {"max_position_embeddings", 32},
                      {"position_embedding_type", "rope"},
                      {"rotary_percent", 0.5},
                      {"rotary_base", 5000.0},
                      {"normalization", "RMSNorm"},
                      {"layernorm_epsilon", 1e-6},
                      {"swiglu", true},
                      {"add_bias_linear", false},
                      {"add_qkv_bias", true},
                      {"untie_embeddings_and_output_weights", true}};

/// Removes `parts` from the model and joins them as one tensor: each run has every part's share of its rows.
void fuse(TinyModel& model, const std::vector<std::string>& parts, const std::string& name, std::size_t runs,
          std::size_t cols) {
  Tensor fused;
  for (std::size_t run = 0; run < runs; ++run) {
    for (const std::string& part : parts) {
      const std::vector<float>& values = model.at(part).values;
      const auto size = static_cast<std::ptrdiff_t>(values.size() / runs);
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(run) * size;
      fused.values.insert(fused.values.end(), begin, begin + size);
    }
  }
  fused.shape = {static_cast<std::int64_t>(fused.values.size() / cols)};
  if (cols > 1) fused.shape.push_back(static_cast<std::int64_t>(cols));
  for (const std::string& part : parts) model.tensors.erase(part);
  model.tensors[name] = fused;
}

/// Returns a model with Megatron-core's names of tensors.
TinyModel megatron_model(const json& config, const ModelSpec& spec, const RoleTensors& tensors) {
  TinyModel model = test::named_model(config, tensors);
  for (std::size_t layer = 0; layer < spec.layers.size(); ++layer) {
    const std::string block = "decoder.layers." + std::to_string(layer) + ".";
    const std::string attention = block + "self_attention.linear_";
    const std::string mlp = block + "mlp.linear_";
    for (const std::string ending : {".weight", ".bias"}) {
      const std::size_t cols = ending == ".weight" ? spec.hidden_size : 1;
      if (model.tensors.contains(attention + "q" + ending)) {
        fuse(model, {attention + "q" + ending, attention + "k" + ending, attention + "v" + ending},
             attention + "qkv" + ending, test::attention_of(spec).kv_heads, cols);
      }
      if (!model.tensors.contains(mlp + "up" + ending)) continue;
      std::vector<std::string> parts = {mlp + "up" + ending};
      if (test::mlp_of(spec).gated) parts.insert(parts.begin(), mlp + "gate" + ending);
      fuse(model, parts, mlp + "fc1" + ending, 1, cols);
    }
  }
  return model;
}

void rename(TinyModel& model, const std::string& from, const std::string& to) {
  auto tensor = model.tensors.extract(from);
  REQUIRE(!tensor.empty());
  tensor.key() = to;
  model.tensors.insert(std::move(tensor));
}

/// Moves norms into the linears that read them, as Transformer Engine stores them.
void move_norms_into_linears(TinyModel& model, const ModelSpec& spec) {
  for (std::size_t layer = 0; layer < spec.layers.size(); ++layer) {
    const std::string block = "decoder.layers." + std::to_string(layer) + ".";
    for (const std::string ending : {"weight", "bias"}) {
      if (ending == "bias" && !spec.norm.bias) continue;
      rename(model, block + "input_layernorm." + ending, block + "self_attention.linear_qkv.layer_norm_" + ending);
      rename(model, block + "pre_mlp_layernorm." + ending, block + "mlp.linear_fc1.layer_norm_" + ending);
    }
  }
}

TEST_CASE("Megatron's arguments without further ones describe GPT-2's block") {
  const ModelSpec spec = described(kConfig);
  CHECK(spec.learned_positions);
  CHECK(spec.norm.kind == NormSpec::Kind::kLayer);
  CHECK(spec.norm.bias);
  CHECK(test::mlp_of(spec).size == 128);
  CHECK(!test::mlp_of(spec).gated);
  CHECK(test::mlp_of(spec).activation == Activation::kGelu);
  CHECK(spec.tied_embeddings);
  CHECK(spec.biases.query);
  CHECK(spec.biases.attention_output);
  CHECK(spec.biases.down);
}

TEST_CASE("--add-qkv-bias gives biases to queries, keys and values alone") {
  const ModelSpec spec = described(kModern);
  CHECK(spec.biases.query);
  CHECK(spec.biases.key);
  CHECK(spec.biases.value);
  CHECK(!spec.biases.attention_output);
  CHECK(!spec.biases.up);
  CHECK(test::mlp_of(spec).gated);
  CHECK(test::attention_of(spec).rope->theta == 5000.0);
  CHECK(test::attention_of(spec).rope->rotary_size == 4);
  CHECK(!spec.tied_embeddings);
}

TEST_CASE("a Megatron checkpoint's logits are those of the reference") {
  json gain_offset = kModern;
  gain_offset["apply_layernorm_1p"] = gain_offset["qk_layernorm"] = true;
  for (const json& config : {kConfig, kModern, gain_offset}) {
    CAPTURE(config.dump());
    const ModelSpec spec = described(config);
    const RoleTensors tensors = test::random_tensors(spec, 4);
    TinyModel model = megatron_model(config, spec, tensors);
    CHECK(model.tensors.contains("decoder.layers.1.self_attention.linear_qkv.weight"));
    CHECK(model.at("decoder.layers.0.self_attention.linear_qkv.weight").shape == Shape{32 + 16 + 16, 32});
    CHECK(model.at("decoder.layers.0.self_attention.linear_qkv.bias").shape == Shape{64});
    CHECK(test::family_error(model, spec, tensors) <= 1e-4);
    move_norms_into_linears(model, spec);
    CHECK(test::family_error(model, spec, tensors) <= 1e-4);
  }
}

TEST_CASE("an error names the fused matrix that a Megatron checkpoint lacks") {
  const ModelSpec spec = described(kModern);
  TinyModel model = megatron_model(kModern, spec, test::random_tensors(spec, 4));
  model.tensors.erase("decoder.layers.0.mlp.linear_fc1.weight");
  const test::TemporaryDirectory directory;
  model.write(directory.path());
  CHECK(test::error_message([&] { const Model loaded(directory.path()); }) ==
        test::Contains("has no tensor \"decoder.layers.0.mlp.linear_fc1.weight\""));
}

TEST_CASE("Megatron's arguments that are not supported are refused by field") {
  const auto refusal = [](const char* field, const json& value) {
    return test::refusal_of_field(kConfig, field, value);
  };
  CHECK(refusal("position_embedding_type", "alibi") ==
        "config.json: position_embedding_type: 'alibi' is not supported; supported: learned_absolute, rope, none");
  CHECK(refusal("normalization", "DeepNorm") ==
        "config.json: normalization: 'DeepNorm' is not supported; supported: LayerNorm, RMSNorm");
  CHECK(refusal("rotary_interleaved", true) == "config.json: rotary_interleaved: true is not supported");
  CHECK(refusal("squared_relu", true) == "config.json: squared_relu: true is not supported");
  CHECK(refusal("qk_layernorm", true) ==
        "config.json: qk_layernorm: true is only supported with normalization 'RMSNorm'");
  CHECK(refusal("kv_channels", 7) == "config.json: kv_channels: must be hidden_size / num_attention_heads");
  for (const char* field : {"rotary_percent", "rotary_base"}) {
    CHECK(test::refusal_of_field(kModern, field, -1) ==
          test::Contains("config.json: " + std::string(field) + ": must "));
  }
  CHECK(refusal("num_query_groups", 3) == "config.json: num_query_groups: 3 does not divide the 4 attention heads");
}

}  // namespace ballast::model::megatron_test
