#include <doctest/doctest.h>

#include "described.h"

namespace ballast::model {
namespace {

const nlohmann::json kConfig = {{"model_type", "exaone4"},  {"num_hidden_layers", 4},   {"hidden_size", 32},
                                {"num_attention_heads", 4}, {"num_key_value_heads", 2}, {"intermediate_size", 40},
                                {"vocab_size", 10}};

TEST_CASE("EXAONE 4's layers with a window rotate, those without do not") {
  const ModelSpec spec = test::described(kConfig);
  CHECK(spec.layout == BlockLayout::kOutputNorm);
  for (std::size_t layer = 0; layer < 4; ++layer) {
    const AttentionSpec& attention = *spec.layers[layer].attention();
    CHECK(attention.query_key_norm);
    CHECK(!attention.norm_over_heads);
    CHECK(attention.window == (layer == 3 ? 0 : 4096));
    CHECK(attention.rope.has_value() == (layer != 3));
  }
}

TEST_CASE("an EXAONE 4 without windows rotates in all layers") {
  const ModelSpec spec = test::described(test::with_field(kConfig, "sliding_window", nullptr));
  for (const LayerSpec& layer : spec.layers) {
    CHECK(layer.attention()->window == 0);
    CHECK(layer.attention()->rope);
  }
}

}  // namespace
}  // namespace ballast::model
