#include "model/block_parts.h"

#include <utility>

namespace ballast::model {

namespace {

MlpWeights assemble_mlp(const MlpSpec& spec, const BlockParts& parts, Part gate, Part up, Part down) {
  MlpWeights weights;
  if (spec.gated) weights.gate = parts.linear(gate);
  weights.up = parts.linear(up);
  weights.down = parts.linear(down);
  return weights;
}

LatentWeights assemble_latent(const LatentAttentionSpec& spec, const BlockParts& parts) {
  LatentWeights latent;
  if (spec.query_rank > 0) {
    latent.query_down = parts.linear({Role::kQueryDown});
    latent.query_down_norm = parts.norm(Role::kQueryDownNorm);
  }
  latent.key_value_down = parts.linear({Role::kKeyValueDown});
  latent.key_value_down_norm = parts.norm(Role::kKeyValueDownNorm);
  latent.key_position = parts.linear({Role::kKeyPosition});
  return latent;
}

ExpertWeights assemble_experts(const MlpSpec& spec, const BlockParts& parts) {
  const ExpertSpec& experts = *spec.experts;
  ExpertWeights routed;
  routed.router = parts.linear({Role::kRouter});
  if (experts.correction_bias) routed.correction = parts.vector(Role::kRouterCorrection);
  if (experts.shared_size > 0) {
    routed.shared = assemble_mlp(spec, parts, {Role::kSharedGate}, {Role::kSharedUp}, {Role::kSharedDown});
  }
  for (std::size_t i = 0; i < experts.count; ++i) {
    routed.experts.push_back(
        assemble_mlp(spec, parts, {Role::kExpertGate, i}, {Role::kExpertUp, i}, {Role::kExpertDown, i}));
  }
  return routed;
}

}  // namespace

BlockWeights assemble_block(const ModelSpec& spec, std::size_t layer, const BlockParts& parts) {
  const LayerSpec& own = spec.layers[layer];
  const AttentionSpec& attention = *own.attention();
  BlockWeights block;
  block.attention_norm = parts.norm(Role::kAttentionNorm);
  if (spec.layout != BlockLayout::kParallelShared) block.mlp_norm = parts.norm(Role::kMlpNorm);
  if (own.latent() != nullptr) block.latent = assemble_latent(*own.latent(), parts);
  block.query = parts.linear({Role::kQuery});
  block.key = parts.linear({Role::kKey});
  block.value = parts.linear({Role::kValue});
  if (attention.query_key_norm) {
    block.query_norm = parts.norm(Role::kQueryNorm);
    block.key_norm = parts.norm(Role::kKeyNorm);
  }
  if (attention.output_gate) block.output_gate = parts.linear({Role::kOutputGate});
  block.attention_output = parts.linear({Role::kAttentionOutput});
  if (own.mlp.experts) {
    block.mlp = assemble_experts(own.mlp, parts);
  } else {
    block.mlp = assemble_mlp(own.mlp, parts, {Role::kGate}, {Role::kUp}, {Role::kDown});
  }
  return block;
}

}  // namespace ballast::model
