#include <doctest/doctest.h>

#include <string>
#include <utility>

#include "described.h"
#include "layers.h"
#include "model/source/model_source.h"
#include "role_tensors.h"

namespace ballast::model::stablelm_test {

using test::described;
using test::with_field;

const nlohmann::json kConfig = {{"model_type", "stablelm"},  {"num_hidden_layers", 2},  {"hidden_size", 512},
                                {"num_attention_heads", 32}, {"intermediate_size", 40}, {"vocab_size", 10}};

TEST_CASE("StableLM has LayerNorms with biases and rotates a quarter of each head") {
  const ModelSpec spec = described(kConfig);
  CHECK(spec.layout == BlockLayout::kPreNorm);
  CHECK(spec.norm.kind == NormSpec::Kind::kLayer);
  CHECK(spec.norm.bias);
  CHECK(test::mlp_of(spec).gated);
  CHECK(test::attention_of(spec).kv_heads == 32);
  CHECK(test::attention_of(spec).rope->rotary_size == 4);
  CHECK(!spec.biases.query);
  const BiasSpec biases = described(with_field(kConfig, "use_qkv_bias", true)).biases;
  CHECK(biases.key);
  CHECK(!biases.attention_output);
}

TEST_CASE("a StableLM with a parallel residual has one norm for both halves") {
  CHECK(described(with_field(kConfig, "use_parallel_residual", true)).layout == BlockLayout::kParallelShared);
}

TEST_CASE("a StableLM may normalize each head of queries and keys with gains of its own") {
  CHECK(!test::attention_of(described(kConfig)).query_key_norm);
  const ModelSpec spec = described(with_field(kConfig, "qk_layernorm", true));
  CHECK(test::attention_of(spec).query_key_norm);
  CHECK(test::attention_of(spec).query_key_norm->kind == HeadNormSpec::Kind::kLayer);
}

TEST_CASE("gains that a checkpoint stores head by head are read as one row") {
  nlohmann::json config = kConfig;
  config.update({{"hidden_size", 32}, {"num_attention_heads", 4}, {"num_key_value_heads", 1}, {"qk_layernorm", true}});
  config["partial_rotary_factor"] = 0.5;
  const ModelSpec spec = described(config);
  const test::RoleTensors tensors = test::random_tensors(spec, 5);
  test::TinyModel tiny = test::named_model(config, tensors);
  for (std::size_t layer = 0; layer < spec.layers.size(); ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".self_attn.";
    for (const auto& [from, to] : {std::pair("q_norm", "q_layernorm"), std::pair("k_norm", "k_layernorm")}) {
      const Tensor all = tiny.at(prefix + from + ".weight");
      tiny.tensors.erase(prefix + from + ".weight");
      for (std::size_t head = 0; head < all.values.size() / 8; ++head) {
        const auto begin = all.values.begin() + static_cast<std::ptrdiff_t>(8 * head);
        tiny.tensors[prefix + to + ".norms." + std::to_string(head) + ".weight"] = {{8}, {begin, begin + 8}};
      }
    }
  }
  const test::TemporaryDirectory directory;
  const ModelSource source(tiny.write(directory.path() / "model"));
  for (const Role role : {Role::kQueryNorm, Role::kKeyNorm}) {
    CHECK(source.norm(role, 1).gain == tensors.at({role, 1, 0}).weight);
    CHECK(source.stored_bytes(role, 1) == tensors.at({role, 1, 0}).weight.size() * sizeof(float));
  }
  tiny.tensors.erase("model.layers.1.self_attn.q_layernorm.norms.2.weight");
  CHECK(test::error_message([&] { ModelSource(tiny.write(directory.path() / "broken")); }) ==
        test::Contains("model.layers.1.self_attn.q_norm.weight"));
}

}  // namespace ballast::model::stablelm_test
