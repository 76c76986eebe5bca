// Access to the layers of a description, for tests that change or check all of them.
#ifndef BALLAST_TESTS_SUPPORT_LAYERS_H_
#define BALLAST_TESTS_SUPPORT_LAYERS_H_

#include <cstddef>

#include "ballast/spec.h"

namespace ballast::test {

/// Returns the attention of the first layer.
inline AttentionSpec& attention_of(ModelSpec& spec) {
  return *spec.layers.front().attention();
}
inline const AttentionSpec& attention_of(const ModelSpec& spec) {
  return *spec.layers.front().attention();
}
inline MlpSpec& mlp_of(ModelSpec& spec) {
  return spec.layers.front().mlp;
}
inline const MlpSpec& mlp_of(const ModelSpec& spec) {
  return spec.layers.front().mlp;
}

/// Adds latent vectors to the attention of all layers.
inline void make_latent(ModelSpec& spec, std::size_t query_rank, std::size_t key_value_rank) {
  for (LayerSpec& layer : spec.layers) {
    layer.mixer = LatentAttentionSpec{
        .attention = *layer.attention(), .query_rank = query_rank, .key_value_rank = key_value_rank};
  }
}

}  // namespace ballast::test

#endif  // BALLAST_TESTS_SUPPORT_LAYERS_H_
