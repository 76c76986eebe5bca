#include "model/arch/gguf_storage.h"

#include <cmath>
#include <variant>

#include "ballast/error.h"

namespace ballast::model {

namespace {

/// Returns the order of `before` values that stay where they are and of those of the value heads, `size` of each.
std::vector<std::size_t> order_of_heads(const GatedDeltaSpec& delta, std::size_t size, std::size_t before = 0) {
  const std::size_t of_key_head = delta.value_heads / delta.key_heads;
  std::vector<std::size_t> order(before + delta.value_heads * size);
  for (std::size_t i = 0; i < before; ++i) order[i] = i;
  for (std::size_t head = 0; head < delta.value_heads; ++head) {
    const std::size_t stored = head % of_key_head * delta.key_heads + head / of_key_head;
    for (std::size_t i = 0; i < size; ++i) order[before + head * size + i] = before + stored * size + i;
  }
  return order;
}

}  // namespace

void set_gguf_norms(ModelSpec& spec) {
  spec.norm.gain_offset = 0;
}

void decode_gguf_vector(Role role, const std::string& context, std::span<float> values) {
  if (role != Role::kDeltaDecayRate && role != Role::kMambaDecayRate) return;
  for (float& value : values) {
    if (value >= 0) throw Error(context, "holds a decay that is not negative");
    value = std::log(-value);
  }
}

GgufOrder gguf_head_order(const Architecture& architecture, const LayerSpec& layer, Role role) {
  const auto* delta = std::get_if<GatedDeltaSpec>(&layer.mixer);
  if (!architecture.gguf_tiles_value_heads || delta == nullptr) return {};
  switch (role) {
    case Role::kDeltaValue:
    case Role::kDeltaGate:
      return {.rows = order_of_heads(*delta, delta->value_size), .cols = {}};
    case Role::kDeltaOutput:
      return {.rows = {}, .cols = order_of_heads(*delta, delta->value_size)};
    case Role::kDeltaStrength:
    case Role::kDeltaDecay:
    case Role::kDeltaDecayBias:
    case Role::kDeltaDecayRate:
      return {.rows = order_of_heads(*delta, 1), .cols = {}};
    case Role::kDeltaConvolution:
      return {.rows = order_of_heads(*delta, delta->value_size * delta->width,
                                     2 * delta->key_heads * delta->key_size * delta->width),
              .cols = {}};
    default:
      return {};
  }
}

}  // namespace ballast::model
