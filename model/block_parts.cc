#include "model/block_parts.h"

#include <utility>

namespace ballast::model {

namespace {

MlpWeights assemble_mlp(const ModelSpec& spec, const BlockParts& parts, Part gate, Part up, Part down) {
  MlpWeights weights;
  if (spec.gated_mlp) weights.gate = parts.linear(gate);
  weights.up = parts.linear(up);
  weights.down = parts.linear(down);
  return weights;
}

LatentWeights assemble_latent(const LatentSpec& spec, const BlockParts& parts) {
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

ExpertWeights assemble_experts(const ModelSpec& spec, const BlockParts& parts) {
  ExpertWeights routed;
  routed.router = parts.linear({Role::kRouter});
  if (spec.experts->correction_bias) routed.correction = parts.vector(Role::kRouterCorrection);
  if (spec.experts->shared_size > 0) {
    routed.shared = assemble_mlp(spec, parts, {Role::kSharedGate}, {Role::kSharedUp}, {Role::kSharedDown});
  }
  for (std::size_t i = 0; i < spec.experts->count; ++i) {
    routed.experts.push_back(
        assemble_mlp(spec, parts, {Role::kExpertGate, i}, {Role::kExpertUp, i}, {Role::kExpertDown, i}));
  }
  return routed;
}

}  // namespace

BlockWeights assemble_block(const ModelSpec& spec, std::size_t layer, const BlockParts& parts) {
  BlockWeights block;
  block.attention_norm = parts.norm(Role::kAttentionNorm);
  if (spec.layout != BlockLayout::kParallelShared) block.mlp_norm = parts.norm(Role::kMlpNorm);
  if (spec.latent) block.latent = assemble_latent(*spec.latent, parts);
  block.query = parts.linear({Role::kQuery});
  block.key = parts.linear({Role::kKey});
  block.value = parts.linear({Role::kValue});
  if (spec.query_key_norm) {
    block.query_norm = parts.norm(Role::kQueryNorm);
    block.key_norm = parts.norm(Role::kKeyNorm);
  }
  if (spec.output_gate != OutputGate::kNone) block.output_gate = parts.linear({Role::kOutputGate});
  block.attention_output = parts.linear({Role::kAttentionOutput});
  if (spec.has_experts(layer)) {
    block.mlp = assemble_experts(spec, parts);
  } else {
    block.mlp = assemble_mlp(spec, parts, {Role::kGate}, {Role::kUp}, {Role::kDown});
  }
  return block;
}

}  // namespace ballast::model
