#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "described.h"

namespace ballast::model::llama4_test {

using nlohmann::json;
using test::described;
using test::with_field;

const json kConfig = {{"model_type", "llama4_text"}, {"num_hidden_layers", 5},  {"hidden_size", 32},
                      {"num_attention_heads", 8},    {"intermediate_size", 12}, {"vocab_size", 10},
                      {"num_local_experts", 4},      {"num_experts_per_tok", 1}};

TEST_CASE("Llama 4's layers rotate and normalize heads, except every fourth, whose queries grow") {
  const ModelSpec spec = described(kConfig);
  for (std::size_t layer = 0; layer < 5; ++layer) {
    CAPTURE(layer);
    const AttentionSpec& attention = *spec.layers[layer].attention();
    const bool rotates = layer != 3;
    CHECK(attention.rope.has_value() == rotates);
    CHECK(attention.query_key_norm.has_value() == rotates);
    CHECK(attention.query_growth.has_value() == !rotates);
    CHECK(attention.head_size == 128);
    CHECK(attention.kv_heads == 8);
    if (!rotates) continue;
    CHECK(attention.query_key_norm->after_rotation);
    CHECK(!attention.query_key_norm->gain);
    CHECK(attention.rope->theta == 500000.0);
  }
  const QueryGrowthSpec& growth = *spec.layers[3].attention()->query_growth;
  CHECK(growth.factor(8190) == 1.0);
  CHECK(growth.factor(8191) == doctest::Approx(1 + 0.1 * std::log(2.0)));
  CHECK(spec.norm.epsilon == 1e-5);
  CHECK(!described(with_field(kConfig, "use_qk_norm", false)).layers[0].attention()->query_key_norm);
  for (const json& off : {json(false), json(0)}) {
    CHECK(!described(with_field(kConfig, "attn_temperature_tuning", off)).layers[3].attention()->query_growth);
  }
  CHECK(described(with_field(kConfig, "attn_temperature_tuning", 4)).layers[3].attention()->query_growth);
  const ModelSpec listed = described(with_field(kConfig, "no_rope_layers", {0, 1, 1, 1, 0}));
  CHECK(!listed.layers[0].attention()->rope);
  CHECK(listed.layers[3].attention()->rope);
  CHECK(!described(with_field(kConfig, "no_rope_layers", json::array())).layers[3].attention()->rope);
  CHECK(test::refusal_of_field(kConfig, "no_rope_layers", {0, 1}) ==
        "config.json: no_rope_layers: has 2 entries for 5 layers");
}

TEST_CASE("Llama 4's experts read tokens times the score, in layers that a step or a list names") {
  const ModelSpec spec = described(with_field(kConfig, "interleave_moe_layer_step", 2));
  for (std::size_t layer = 0; layer < 5; ++layer) CHECK(spec.layers[layer].mlp.experts.has_value() == (layer % 2 == 1));
  CHECK(spec.layers[0].mlp.size == 16384);
  const ExpertSpec& experts = *spec.layers[1].mlp.experts;
  CHECK(experts.weighs_inputs);
  CHECK(experts.scoring == ExpertSpec::Scoring::kSigmoid);
  CHECK(!experts.normalize);
  CHECK(!experts.correction_bias);
  CHECK(experts.size == 12);
  CHECK(experts.shared_size == 12);
  const ModelSpec listed = described(with_field(kConfig, "moe_layers", {0, 4}));
  CHECK(listed.layers[0].mlp.experts);
  CHECK(!listed.layers[1].mlp.experts);
  CHECK(listed.layers[4].mlp.experts);
  CHECK(test::refusal_of_field(kConfig, "moe_layers", {5}) ==
        "config.json: moe_layers[0]: must be between 0 and 4, is 5");
}

TEST_CASE("a text is at most as long as a chunk of Llama 4's attention, where a layer has chunks") {
  CHECK(described(kConfig).context_length == 8192);
  CHECK(described(with_field(kConfig, "attention_chunk_size", 100)).context_length == 100);
  CHECK(described(with_field(kConfig, "max_position_embeddings", 50)).context_length == 50);
  const json whole = with_field(kConfig, "layer_types", std::vector<std::string>(5, "full_attention"));
  CHECK(described(whole).context_length == 131072);
  CHECK(described(with_field(whole, "attention_chunk_size", nullptr)).context_length == 131072);
  CHECK(test::refusal_of_field(kConfig, "attention_chunk_size", nullptr) ==
        test::Contains("config.json: attention_chunk_size: missing"));
  CHECK(test::refusal_of_field(kConfig, "layer_types", std::vector<std::string>(5, "sliding_attention")) ==
        test::Contains("'sliding_attention' is not supported; supported: chunked_attention, full_attention"));
}

TEST_CASE("a multimodal Llama 4 is read as its text model") {
  json config = {{"model_type", "llama4"}, {"text_config", kConfig}, {"vision_config", {{"hidden_size", 16}}}};
  CHECK(described(config).layers.size() == 5);
  CHECK(!described(config).tied_embeddings);
  CHECK(described(with_field(config, "tie_word_embeddings", true)).tied_embeddings);
}

}  // namespace ballast::model::llama4_test
