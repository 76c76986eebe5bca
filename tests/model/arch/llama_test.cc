#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "described.h"
#include "layers.h"

namespace ballast::model::llama_test {

using nlohmann::json;
using test::Contains;
using test::described;
using test::error_message;

const json kMinimal = {{"model_type", "llama"},    {"num_hidden_layers", 2},  {"hidden_size", 24},
                       {"num_attention_heads", 6}, {"intermediate_size", 40}, {"vocab_size", 67}};

std::string refusal(const char* field, const json& value) {
  return test::refusal_of_field(kMinimal, field, value);
}

TEST_CASE("a minimal configuration gets Llama's defaults") {
  const ModelSpec spec = described(kMinimal);
  CHECK(spec.layers.size() == 2);
  CHECK(test::attention_of(spec).kv_heads == 6);
  CHECK(test::attention_of(spec).head_size == 4);
  CHECK(test::attention_of(spec).value_size == 4);
  CHECK(test::attention_of(spec).scale == 0.5);
  CHECK(spec.context_length == 2048);
  CHECK(spec.norm.kind == NormSpec::Kind::kRms);
  CHECK(spec.norm.epsilon == 1e-6);
  CHECK(spec.layout == BlockLayout::kPreNorm);
  CHECK(test::attention_of(spec).rope);
  CHECK(test::attention_of(spec).rope->theta == 10000.0);
  CHECK(test::attention_of(spec).rope->rotary_size == 4);
  CHECK(spec.causal);
  CHECK(test::mlp_of(spec).gated);
  CHECK(test::mlp_of(spec).activation == Activation::kSilu);
  CHECK(!spec.biases.query);
  CHECK(!spec.biases.attention_output);
  CHECK(!spec.biases.down);
  CHECK(!spec.tied_embeddings);
}

TEST_CASE("Llama's flags give every linear of attention or MLP a bias") {
  const ModelSpec attention = described(test::with_field(kMinimal, "attention_bias", true));
  CHECK(attention.biases.query);
  CHECK(attention.biases.key);
  CHECK(attention.biases.value);
  CHECK(attention.biases.attention_output);
  CHECK(!attention.biases.up);
  const ModelSpec mlp = described(test::with_field(kMinimal, "mlp_bias", true));
  CHECK(mlp.biases.up);
  CHECK(mlp.biases.down);
  CHECK(!mlp.biases.query);
}

TEST_CASE("a head size of its own needs no relation to the hidden size") {
  json config = test::with_field(kMinimal, "num_attention_heads", 5);
  CHECK(error_message([&] { described(config); }) ==
        "config.json: num_attention_heads: must divide the hidden size when head_dim is not given");
  config["head_dim"] = 8;
  CHECK(described(config).layers[0].attention()->head_size == 8);
}

TEST_CASE("heads that do not divide are refused by field") {
  CHECK(refusal("num_key_value_heads", 4) ==
        "config.json: num_key_value_heads: 4 does not divide the 6 attention heads");
  CHECK(refusal("num_key_value_heads", 12) ==
        "config.json: num_key_value_heads: 12 does not divide the 6 attention heads");
  CHECK(refusal("head_dim", 7) ==
        "config.json: head_dim: makes 7 of a head's 7 channels rotate; it must be an even number");
}

TEST_CASE("an invalid size is refused by field") {
  for (const char* field : {"num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads",
                            "head_dim", "intermediate_size", "vocab_size", "max_position_embeddings"}) {
    CAPTURE(field);
    const std::string context = "config.json: " + std::string(field) + ": ";
    CHECK(refusal(field, -3) == context + "must be between 1 and 2^31 - 1, is -3");
    CHECK(refusal(field, 0) == context + "must be between 1 and 2^31 - 1, is 0");
    CHECK(refusal(field, std::uint64_t{1} << 63) == context + "must be between 1 and 2^31 - 1, is 9223372036854775808");
    CHECK(refusal(field, "32") == context + "must be a whole number, is \"32\"");
    CHECK(refusal(field, 32.5) == context + "must be a whole number, is 32.5");
    CHECK(refusal(field, json::array({32})) == context + "must be a whole number, is [32]");
  }
  for (const char* field :
       {"num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size", "vocab_size"}) {
    CHECK(refusal(field, nullptr) == "config.json: " + std::string(field) + ": missing");
  }
}

TEST_CASE("other fields of a wrong type are refused by field") {
  CHECK(refusal("rms_norm_eps", "1e-5") == "config.json: rms_norm_eps: must be a number, is \"1e-5\"");
  CHECK(refusal("attention_bias", 1) == "config.json: attention_bias: must be true or false, is 1");
  CHECK(refusal("mlp_bias", "false") == "config.json: mlp_bias: must be true or false, is \"false\"");
  CHECK(refusal("tie_word_embeddings", 0) == "config.json: tie_word_embeddings: must be true or false, is 0");
  CHECK(refusal("hidden_act", "mish") == Contains("config.json: hidden_act: 'mish' is not supported; supported: silu"));
  CHECK(refusal("rope_scaling", 3) == "config.json: rope_scaling: must be an object, is 3");
}

TEST_CASE("an unknown architecture is refused, and the error lists the known ones") {
  CHECK(error_message([] { architecture_for_model_type("mamba", "config.json"); }) ==
        Contains("config.json: architecture 'mamba' is not supported; supported: llama, mistral, qwen2"));
  CHECK(error_message([] { architecture_for_gguf("", "m.gguf"); }) ==
        Contains("m.gguf: architecture '' is not supported; supported: llama, qwen2"));
}

}  // namespace ballast::model::llama_test
