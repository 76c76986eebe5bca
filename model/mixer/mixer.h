// What of a layer lets the tokens of a sequence see each other: attention, or something recurrent.
#ifndef BALLAST_MODEL_MIXER_MIXER_H_
#define BALLAST_MODEL_MIXER_MIXER_H_

#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "ballast/spec.h"
#include "model/mixer/value_path.h"
#include "model/role_table.h"

namespace ballast::model {

/// One kind of mixer: a description and functions, shared by all layers that have it. Its output projection writes the
/// residual stream, and its linears that read the block's input name Role::kAttentionNorm as what they read.
struct MixerKind {
  std::string_view name;           ///< as RegisteredMixerSpec::name says it
  std::span<const RoleRow> roles;  ///< its linears, norms and vectors, in the order of the forward pass

  /// Which folds pass through it; null when there is nothing that they could pass.
  ValuePath (*value_path)(const LayerSpec&) = nullptr;
};

/// The kind that a layer's spec names. Throws Error for a name that nobody registered.
const MixerKind& mixer_kind(const LayerSpec& layer);

/// Makes a kind known, at the start of a program: `kind` must outlive it. Not thread-safe. Throws Error when its name
/// or one of its roles (registered_role) is another kind's.
void register_mixer(const MixerKind& kind);

void for_each_mixer_kind(const std::function<void(const MixerKind&)>& visit);

/// MixerKind::value_path of a layer, if it has one.
std::optional<ValuePath> value_path(const LayerSpec& layer);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_MIXER_MIXER_H_
