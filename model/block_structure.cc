#include "model/block_structure.h"

namespace ballast::model {

namespace {

/// Inputs of the attention's linears up to the output projection; the first is the block's (normalized) input.
std::vector<BlockInput> attention_inputs(const ModelSpec& spec) {
  std::vector<BlockInput> inputs(1);
  std::vector<Part>& first = inputs.front().readers;
  if (!spec.latent) {
    first = {{Role::kQuery}, {Role::kKey}, {Role::kValue}};
  } else {
    first = {{Role::kKeyValueDown}, {Role::kKeyPosition}};
    if (spec.latent->query_rank > 0) {
      first.insert(first.begin(), {Role::kQueryDown});
      inputs.push_back({Role::kQueryDownNorm, {{Role::kQuery}}});
    } else {
      first.insert(first.begin(), {Role::kQuery});
    }
    inputs.push_back({Role::kKeyValueDownNorm, {{Role::kKey}, {Role::kValue}}});
  }
  if (spec.output_gate != OutputGate::kNone) first.push_back({Role::kOutputGate});
  return inputs;
}

/// Inputs of the MLP's linears; the first is the MLP's.
std::vector<BlockInput> mlp_inputs(const ModelSpec& spec, std::size_t layer) {
  if (!spec.has_experts(layer)) {
    std::vector<BlockInput> inputs(2);
    if (spec.gated_mlp) inputs[0].readers.push_back({Role::kGate});
    inputs[0].readers.push_back({Role::kUp});
    inputs[1].readers.push_back({Role::kDown});
    return inputs;
  }
  std::vector<BlockInput> inputs = {{{}, {{Role::kRouter}}}};
  const auto add_mlp = [&](Role gate, Role up, Role down, std::size_t expert) {
    if (spec.gated_mlp) inputs[0].readers.push_back({gate, expert});
    inputs[0].readers.push_back({up, expert});
    inputs.push_back({{}, {{down, expert}}});
  };
  if (spec.experts->shared_size > 0) add_mlp(Role::kSharedGate, Role::kSharedUp, Role::kSharedDown, 0);
  for (std::size_t i = 0; i < spec.experts->count; ++i) {
    add_mlp(Role::kExpertGate, Role::kExpertUp, Role::kExpertDown, i);
  }
  return inputs;
}

}  // namespace

std::vector<BlockInput> block_inputs(const ModelSpec& spec, std::size_t layer) {
  std::vector<BlockInput> inputs = attention_inputs(spec);
  inputs.push_back({{}, {{Role::kAttentionOutput}}});
  std::vector<BlockInput> mlp = mlp_inputs(spec, layer);
  switch (spec.layout) {
    case BlockLayout::kPreNorm:
    case BlockLayout::kParallel:
      inputs.front().norm = Role::kAttentionNorm;
      mlp.front().norm = Role::kMlpNorm;
      break;
    case BlockLayout::kParallelShared:
      inputs.front().norm = Role::kAttentionNorm;
      inputs.front().readers.insert(inputs.front().readers.end(), mlp.front().readers.begin(),
                                    mlp.front().readers.end());
      mlp.erase(mlp.begin());
      break;
    case BlockLayout::kPostNorm:
      break;  // what these norms write is the residual stream, which is read further on
  }
  inputs.insert(inputs.end(), mlp.begin(), mlp.end());
  return inputs;
}

std::vector<Role> block_norms(const ModelSpec& spec) {
  std::vector<Role> norms;
  if (spec.layout != BlockLayout::kPostNorm) norms.push_back(Role::kAttentionNorm);
  if (spec.latent) {
    if (spec.latent->query_rank > 0) norms.push_back(Role::kQueryDownNorm);
    norms.push_back(Role::kKeyValueDownNorm);
  }
  if (spec.query_key_norm) norms.insert(norms.end(), {Role::kQueryNorm, Role::kKeyNorm});
  if (spec.layout == BlockLayout::kPostNorm) norms.push_back(Role::kAttentionNorm);
  if (spec.layout != BlockLayout::kParallelShared) norms.push_back(Role::kMlpNorm);
  return norms;
}

std::vector<Part> block_linears(const ModelSpec& spec, std::size_t layer) {
  std::vector<Part> linears;
  for (const BlockInput& input : block_inputs(spec, layer)) {
    linears.insert(linears.end(), input.readers.begin(), input.readers.end());
  }
  return linears;
}

bool is_norm(Role role) {
  switch (role) {
    case Role::kEmbeddingNorm:
    case Role::kFinalNorm:
    case Role::kHeadNorm:
    case Role::kAttentionNorm:
    case Role::kQueryDownNorm:
    case Role::kKeyValueDownNorm:
    case Role::kQueryNorm:
    case Role::kKeyNorm:
    case Role::kMlpNorm:
      return true;
    default:
      return false;
  }
}

bool is_vector(Role role) {
  return role == Role::kHeadBias || role == Role::kRouterCorrection;
}

NormSpec norm_spec(const ModelSpec& spec, Role role) {
  switch (role) {
    case Role::kQueryDownNorm:
    case Role::kKeyValueDownNorm:
      return {.kind = NormSpec::Kind::kRms,
              .epsilon = spec.latent->epsilon,
              .bias = false,
              .gain_offset = spec.norm.gain_offset};
    case Role::kQueryNorm:
    case Role::kKeyNorm:
      return {.kind = NormSpec::Kind::kRms,
              .epsilon = spec.norm.epsilon,
              .bias = false,
              .gain_offset = spec.norm.gain_offset};
    default:
      return spec.norm;
  }
}

std::pair<std::size_t, std::size_t> matrix_shape(const ModelSpec& spec, Role role) {
  const std::size_t hidden = spec.hidden_size;
  const std::size_t rotary = spec.rope.rotary_size;
  const LatentSpec latent = spec.latent.value_or(LatentSpec{});
  const ExpertSpec experts = spec.experts.value_or(ExpertSpec{});
  switch (role) {
    case Role::kEmbedding:
    case Role::kHead:
      return {spec.vocab_size, hidden};
    case Role::kPositionEmbedding:
      return {spec.context_length, hidden};
    case Role::kTokenTypeEmbedding:
      return {spec.token_types, hidden};
    case Role::kHeadTransform:
      return {hidden, hidden};
    case Role::kHeadBias:
      return {1, spec.vocab_size};
    case Role::kRouterCorrection:
      return {1, experts.count};
    case Role::kQueryDown:
      return {latent.query_rank, hidden};
    case Role::kQueryDownNorm:
      return {1, latent.query_rank};
    case Role::kKeyValueDown:
      return {latent.key_value_rank, hidden};
    case Role::kKeyValueDownNorm:
      return {1, latent.key_value_rank};
    case Role::kKeyPosition:
      return {rotary, hidden};
    case Role::kQuery:
      return {spec.heads * spec.head_size, latent.query_rank > 0 ? latent.query_rank : hidden};
    case Role::kKey:
      if (spec.latent) return {spec.kv_heads * (spec.head_size - rotary), latent.key_value_rank};
      return {spec.kv_heads * spec.head_size, hidden};
    case Role::kValue:
      return {spec.kv_heads * spec.value_size, spec.latent ? latent.key_value_rank : hidden};
    case Role::kQueryNorm:
    case Role::kKeyNorm:
      return {1, spec.head_size};
    case Role::kOutputGate:
      return {spec.output_gate == OutputGate::kPerHead ? spec.heads : spec.heads * spec.value_size, hidden};
    case Role::kAttentionOutput:
      return {hidden, spec.heads * spec.value_size};
    case Role::kGate:
    case Role::kUp:
      return {spec.mlp_size, hidden};
    case Role::kDown:
      return {hidden, spec.mlp_size};
    case Role::kRouter:
      return {experts.count, hidden};
    case Role::kSharedGate:
    case Role::kSharedUp:
      return {experts.shared_size, hidden};
    case Role::kSharedDown:
      return {hidden, experts.shared_size};
    case Role::kExpertGate:
    case Role::kExpertUp:
      return {experts.size, hidden};
    case Role::kExpertDown:
      return {hidden, experts.size};
    default:
      return {1, hidden};  // the other norms
  }
}

bool BiasSpec::* bias_flag(Role role) {
  switch (role) {
    case Role::kQuery:
    case Role::kOutputGate:
      return &BiasSpec::query;
    case Role::kKey:
      return &BiasSpec::key;
    case Role::kValue:
      return &BiasSpec::value;
    case Role::kAttentionOutput:
      return &BiasSpec::attention_output;
    case Role::kQueryDown:
    case Role::kKeyValueDown:
    case Role::kKeyPosition:
      return &BiasSpec::latent;
    case Role::kSharedGate:
    case Role::kSharedUp:
    case Role::kExpertGate:
    case Role::kExpertUp:
    case Role::kGate:
    case Role::kUp:
      return &BiasSpec::up;
    case Role::kSharedDown:
    case Role::kExpertDown:
    case Role::kDown:
      return &BiasSpec::down;
    case Role::kHeadBias:
      return &BiasSpec::head;
    default:
      return nullptr;
  }
}

bool has_bias(const ModelSpec& spec, Role role) {
  if (bool BiasSpec::* flag = bias_flag(role)) return spec.biases.*flag;
  return role == Role::kHeadTransform || (is_norm(role) && norm_spec(spec, role).bias);
}

std::vector<Role> outer_roles(const ModelSpec& spec) {
  std::vector<Role> roles = {Role::kEmbedding};
  const auto add = [&](bool there, Role role) {
    if (there) roles.push_back(role);
  };
  add(spec.positions == PositionKind::kLearned, Role::kPositionEmbedding);
  add(spec.token_types > 0, Role::kTokenTypeEmbedding);
  add(spec.embedding_norm, Role::kEmbeddingNorm);
  add(spec.has_final_norm(), Role::kFinalNorm);
  add(spec.head_transform, Role::kHeadTransform);
  add(spec.head_transform, Role::kHeadNorm);
  add(!spec.tied_embeddings, Role::kHead);
  add(spec.biases.head, Role::kHeadBias);
  return roles;
}

}  // namespace ballast::model
