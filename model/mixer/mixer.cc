#include "model/mixer/mixer.h"

#include <algorithm>
#include <string>
#include <vector>

#include "ballast/error.h"
#include "model/forward/key_value_cache.h"
#include "model/mixer/attention_kinds.h"
#include "model/mixer/recurrent_kinds.h"

namespace ballast::model {

namespace {

/// Returns the registered kinds.
std::vector<const MixerKind*>& registered() {
  static std::vector<const MixerKind*> kinds;
  return kinds;
}

}  // namespace

const MixerKind& mixer_kind(const LayerSpec& layer) {
  if (std::holds_alternative<AttentionSpec>(layer.mixer)) return kAttention;
  if (std::holds_alternative<LatentAttentionSpec>(layer.mixer)) return kLatentAttention;
  if (std::holds_alternative<GatedDeltaSpec>(layer.mixer)) return kGatedDelta;
  if (std::holds_alternative<ShortConvolutionSpec>(layer.mixer)) return kShortConvolution;
  if (std::holds_alternative<Mamba2Spec>(layer.mixer)) return kMamba2;
  if (std::holds_alternative<ParallelMixersSpec>(layer.mixer)) return parallel_mixers();
  if (std::holds_alternative<NoMixerSpec>(layer.mixer)) return kNoMixer;
  const std::string& name = std::get<RegisteredMixerSpec>(layer.mixer).name;
  for (const MixerKind* kind : registered()) {
    if (kind->name == name) return *kind;
  }
  throw Error("mixer '" + name + "'", "is not registered: register_mixer before a model with it is read");
}

void register_mixer(const MixerKind& kind) {
  for_each_mixer_kind([&](const MixerKind& other) {
    const bool role_taken = std::ranges::any_of(kind.roles, [&](const RoleRow& row) {
      return std::ranges::find(other.roles, row.role, &RoleRow::role) != other.roles.end();
    });
    if (other.name != kind.name && !role_taken) return;
    throw Error("mixer '" + std::string(kind.name) + "'",
                "its name or one of its roles is that of mixer '" + std::string(other.name) + "'");
  });
  registered().push_back(&kind);
}

void for_each_mixer_kind(const std::function<void(const MixerKind&)>& visit) {
  visit(kAttention);
  visit(kLatentAttention);
  visit(kGatedDelta);
  visit(kShortConvolution);
  visit(kMamba2);
  visit(parallel_mixers());
  visit(kNoMixer);
  for (const MixerKind* kind : registered()) visit(*kind);
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

}  // namespace ballast::model
