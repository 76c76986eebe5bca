#include "model/source/tiled_heads.h"

#include <variant>

namespace ballast::model {

namespace {

/// `before` values as they are, then those of the value heads, `size` of each.
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

std::vector<std::size_t> tiled_head_order(const StorageLayout& layout, const LayerSpec& layer, Role role) {
  const auto* delta = std::get_if<GatedDeltaSpec>(&layer.mixer);
  if (!layout.gguf || !layout.architecture->gguf_tiles_value_heads || delta == nullptr) return {};
  switch (role) {
    case Role::kDeltaValue:
    case Role::kDeltaGate:
    case Role::kDeltaOutput:
      return order_of_heads(*delta, delta->value_size);
    case Role::kDeltaStrength:
    case Role::kDeltaDecay:
    case Role::kDeltaDecayBias:
    case Role::kDeltaDecayRate:
      return order_of_heads(*delta, 1);
    case Role::kDeltaConvolution:
      return order_of_heads(*delta, delta->value_size * delta->width,
                            2 * delta->key_heads * delta->key_size * delta->width);
    default:
      return {};
  }
}

}  // namespace ballast::model
