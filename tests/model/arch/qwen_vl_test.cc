#include <doctest/doctest.h>

#include "described.h"
#include "layers.h"

namespace ballast::model::qwen_vl_test {

using nlohmann::json;

const json kText = {{"num_hidden_layers", 2},
                    {"hidden_size", 32},
                    {"num_attention_heads", 4},
                    {"num_key_value_heads", 2},
                    {"intermediate_size", 40},
                    {"vocab_size", 10},
                    {"rope_scaling", {{"type", "mrope"}, {"mrope_section", {1, 1, 2}}}}};

TEST_CASE("the text model of Qwen2-VL and Qwen2.5-VL is Qwen2, wherever its fields are") {
  for (const char* type : {"qwen2_vl", "qwen2_5_vl"}) {
    json flat = kText;
    flat["model_type"] = type;
    for (const json& config : {flat, json{{"model_type", type}, {"text_config", kText}}}) {
      const ModelSpec spec = test::described(config);
      CHECK(spec.biases.query);
      CHECK(!spec.biases.attention_output);
      CHECK(!test::attention_of(spec).query_key_norm);
      CHECK(test::attention_of(spec).rope->theta == 1e6);
      CHECK(test::attention_of(spec).rope->scaling == RopeSpec::Scaling::kNone);
      CHECK(!spec.tied_embeddings);
      CHECK(test::described(test::with_field(config, "tie_word_embeddings", true)).tied_embeddings);
    }
    CHECK(test::refusal_of_field(flat, "use_sliding_window", true) ==
          "config.json: use_sliding_window: true is not supported");
  }
}

TEST_CASE("the text model of Qwen3-VL is Qwen3") {
  const ModelSpec spec = test::described({{"model_type", "qwen3_vl"}, {"text_config", kText}});
  CHECK(test::attention_of(spec).query_key_norm);
  CHECK(test::attention_of(spec).head_size == 128);
  CHECK(test::attention_of(spec).rope->theta == 500000.0);
  CHECK(!spec.biases.query);
}

}  // namespace ballast::model::qwen_vl_test
