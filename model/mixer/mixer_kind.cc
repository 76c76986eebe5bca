#include "model/mixer/mixer_kind.h"

#include <array>

#include "model/cache/key_value_cache.h"
#include "model/mixer/attention_kinds.h"
#include "model/mixer/recurrent_kinds.h"

namespace ballast::model {

const MixerKind& mixer_kind(const LayerSpec& layer) {
  if (std::holds_alternative<AttentionSpec>(layer.mixer)) return kAttention;
  if (std::holds_alternative<CrossAttentionSpec>(layer.mixer)) return kCrossAttention;
  if (std::holds_alternative<LatentAttentionSpec>(layer.mixer)) return kLatentAttention;
  if (std::holds_alternative<GatedDeltaSpec>(layer.mixer)) return kGatedDelta;
  if (std::holds_alternative<ShortConvolutionSpec>(layer.mixer)) return kShortConvolution;
  if (std::holds_alternative<Mamba2Spec>(layer.mixer)) return kMamba2;
  if (std::holds_alternative<ParallelMixersSpec>(layer.mixer)) return parallel_mixers();
  return kNoMixer;
}

std::span<const MixerKind* const> mixer_kinds() {
  static const std::array kinds = {&kAttention,        &kCrossAttention, &kLatentAttention,  &kGatedDelta,
                                   &kShortConvolution, &kMamba2,         &parallel_mixers(), &kNoMixer};
  return kinds;
}

std::optional<ValuePath> value_path(const LayerSpec& layer) {
  const MixerKind& kind = mixer_kind(layer);
  if (kind.value_path == nullptr) return {};
  return kind.value_path(layer);
}

CacheShape cache_shape(const LayerSpec& layer) {
  const MixerKind& kind = mixer_kind(layer);
  return kind.cache_shape == nullptr ? CacheShape{} : kind.cache_shape(layer);
}

CacheShape source_shape(const LayerSpec& layer) {
  const MixerKind& kind = mixer_kind(layer);
  return kind.source_shape == nullptr ? CacheShape{} : kind.source_shape(layer);
}

}  // namespace ballast::model
