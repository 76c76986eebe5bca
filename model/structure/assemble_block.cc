#include "model/structure/assemble_block.h"

#include <utility>

#include "model/mixer/mixer_kind.h"
#include "model/structure/role_table.h"

namespace ballast::model {

namespace {

MlpWeights assemble_mlp(const MlpSpec& spec, const BlockParts& parts, Part gate, Part up, Part down) {
  MlpWeights weights;
  if (spec.gated) weights.gate = parts.linear(gate);
  weights.up = parts.linear(up);
  weights.down = parts.linear(down);
  return weights;
}

ExpertWeights assemble_experts(const MlpSpec& spec, const BlockParts& parts) {
  const ExpertSpec& experts = *spec.experts;
  ExpertWeights routed;
  routed.router = parts.linear({Role::kRouter});
  if (experts.correction_bias) routed.correction = parts.vector(Role::kRouterCorrection);
  if (experts.shared_size > 0) {
    routed.shared = assemble_mlp(spec, parts, {Role::kSharedGate}, {Role::kSharedUp}, {Role::kSharedDown});
  }
  if (experts.shared_router) routed.shared_router = parts.linear({Role::kSharedRouter});
  if (experts.post_norms) {
    routed.shared_post_norm = parts.norm(Role::kSharedPostNorm);
    routed.post_norm = parts.norm(Role::kExpertsPostNorm);
  }
  routed.store = parts.experts;
  for (std::size_t i = 0; i < experts.count && routed.store == nullptr; ++i) {
    routed.experts.push_back(assemble_expert(spec, parts, i));
  }
  return routed;
}

}  // namespace

MlpWeights assemble_expert(const MlpSpec& spec, const BlockParts& parts, std::size_t expert) {
  return assemble_mlp(spec, parts, {Role::kExpertGate, expert}, {Role::kExpertUp, expert}, {Role::kExpertDown, expert});
}

BlockWeights assemble_block(const ModelSpec& spec, std::size_t layer, const BlockParts& parts) {
  const LayerSpec& own = spec.layers[layer];
  BlockWeights block;
  const auto norm = [&](Role role) { return has_role(spec, own, role) ? parts.norm(role) : Norm{}; };
  block.attention_norm = norm(Role::kAttentionNorm);
  block.attention_post_norm = norm(Role::kAttentionPostNorm);
  block.mlp_norm = norm(Role::kMlpNorm);
  block.mlp_post_norm = norm(Role::kMlpPostNorm);
  block.stream_norm = norm(Role::kEncoderNorm);
  if (spec.token_inputs) {
    block.token_inputs = TokenInputWeights{.gate = parts.linear({Role::kTokenInputGate}),
                                           .output = parts.linear({Role::kTokenInputOutput}),
                                           .post_norm = parts.norm(Role::kTokenInputPostNorm)};
  }
  if (spec.layer_scales) block.scale = parts.vector(Role::kLayerScale).front();
  block.mixer = mixer_kind(own).assemble(spec, layer, parts);
  if (own.mlp.experts) {
    block.mlp = assemble_experts(own.mlp, parts);
  } else if (own.mlp.exists()) {
    block.mlp = assemble_mlp(own.mlp, parts, {Role::kGate}, {Role::kUp}, {Role::kDown});
  }
  return block;
}

}  // namespace ballast::model
