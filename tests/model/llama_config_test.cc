#include "model/arch/llama.h"

#include <doctest/doctest.h>

#include <string>

#include "error_message.h"

namespace ballast::model {
namespace {

using nlohmann::json;
using test::error_message;

json minimal_config() {
  return {{"num_hidden_layers", 2},
          {"hidden_size", 24},
          {"num_attention_heads", 6},
          {"intermediate_size", 40},
          {"vocab_size", 67}};
}

ModelSpec describe(const json& config) {
  return kLlama.describe(ConfigReader(config, "config.json"));
}

std::string refusal(const char* field, const json& value) {
  json config = minimal_config();
  config[field] = value;
  return error_message([&] { describe(config); });
}

TEST_CASE("a minimal configuration gets Llama's defaults") {
  const ModelSpec spec = describe(minimal_config());
  CHECK(spec.layers == 2);
  CHECK(spec.kv_heads == 6);
  CHECK(spec.head_size == 4);
  CHECK(spec.context_length == 2048);
  CHECK(spec.norm_epsilon == 1e-6);
  CHECK(spec.rope.theta == 10000.0);
  CHECK(!spec.attention_bias);
  CHECK(!spec.mlp_bias);
  CHECK(!spec.tied_embeddings);
}

TEST_CASE("a head size of its own needs no relation to the hidden size") {
  json config = minimal_config();
  config["num_attention_heads"] = 5;
  CHECK(error_message([&] { describe(config); }) ==
        "config.json: num_attention_heads: must divide hidden_size when head_dim is not given");
  config["head_dim"] = 8;
  CHECK(describe(config).head_size == 8);
}

TEST_CASE("a size that is none is refused by field") {
  for (const char* field : {"num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads",
                            "head_dim", "intermediate_size", "vocab_size", "max_position_embeddings"}) {
    CAPTURE(field);
    const std::string place = "config.json: " + std::string(field) + ": ";
    CHECK(refusal(field, -3) == place + "must lie between 1 and 2^31 - 1, is -3");
    CHECK(refusal(field, 0) == place + "must lie between 1 and 2^31 - 1, is 0");
    CHECK(refusal(field, std::uint64_t{1} << 63) == place + "must lie between 1 and 2^31 - 1, is 9223372036854775808");
    CHECK(refusal(field, "32") == place + "must be a whole number, is \"32\"");
    CHECK(refusal(field, 32.5) == place + "must be a whole number, is 32.5");
    CHECK(refusal(field, json::array({32})) == place + "must be a whole number, is [32]");
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
  CHECK(refusal("hidden_act", "gelu") == "config.json: hidden_act: 'gelu' is not supported; supported: silu");
  CHECK(refusal("rope_scaling", 3) == "config.json: rope_scaling: must be an object, is 3");
}

TEST_CASE("an architecture that is not known is refused with those that are") {
  CHECK(error_message([] { architecture_for_model_type("mamba", "config.json"); }) ==
        "config.json: architecture 'mamba' is not supported; supported: llama");
  CHECK(error_message([] { architecture_for_gguf("", "m.gguf"); }) ==
        "m.gguf: architecture '' is not supported; supported: llama");
}

}  // namespace
}  // namespace ballast::model
