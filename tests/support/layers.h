// The layers of a description, for tests that change or check what all of them have in common.
#ifndef BALLAST_TESTS_SUPPORT_LAYERS_H_
#define BALLAST_TESTS_SUPPORT_LAYERS_H_

#include <cstddef>

#include "ballast/spec.h"

namespace ballast::test {

/// Of the first layer.
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

/// Puts latent vectors before the heads that all layers have.
inline void make_latent(ModelSpec& spec, std::size_t query_rank, std::size_t key_value_rank) {
  for (LayerSpec& layer : spec.layers) {
    layer.mixer = LatentAttentionSpec{
        .attention = *layer.attention(), .query_rank = query_rank, .key_value_rank = key_value_rank};
  }
}

}  // namespace ballast::test

#endif  // BALLAST_TESTS_SUPPORT_LAYERS_H_
