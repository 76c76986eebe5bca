#include "quant/passes/fold_rules.h"

#include <algorithm>
#include <optional>

#include "model/source/hadamard.h"
#include "model/structure/block_structure.h"

namespace ballast::quant {

using model::Role;

namespace {

/// Returns whether only linears read the output of a norm.
FoldLegality read_by_linears_only(const ModelSpec& spec, std::size_t layer, Role norm) {
  const LayerSpec& own = spec.layers[layer];
  const model::RoleRow& row = model::role_row(own, norm);
  if (row.read_by_linears_only != nullptr) return row.read_by_linears_only(spec, own);
  if (spec.layout == BlockLayout::kPostNorm) {
    return {false, "it writes the residual stream itself, which is read and added to further on"};
  }
  if (spec.layout == BlockLayout::kOutputNorm) return {false, "what it writes is added to the residual stream"};
  if (spec.layout == BlockLayout::kParallelShared) return {true, "only attention's and MLP's linears read it"};
  return {true, "only linears read it"};
}

/// Returns whether a mixer reads the residual stream without a norm.
bool reads_stream_itself(const ModelSpec& spec) {
  return !std::ranges::all_of(spec.layers, &LayerSpec::mixer_norm);
}

/// Returns whether experts read the norm times a weight that depends on the token.
bool is_weighed_for_experts(const ModelSpec& spec, std::size_t layer, Role norm) {
  if (model::role_row(norm).place != model::RoleRow::Place::kBlock) return false;
  const std::optional<ExpertSpec>& experts = spec.layers[layer].mlp.experts;
  if (!experts || !experts->weighs_inputs) return false;
  for (const model::BlockInput& input : model::block_inputs(spec, layer)) {
    if (input.norm != norm) continue;
    for (const model::Part& reader : input.readers) {
      if (model::role_row(reader.role).place == model::RoleRow::Place::kExpert) return true;
    }
  }
  return false;
}

/// Returns a linear of the block that reads the norm and cannot have a bias, if there is one.
std::optional<Role> reader_without_bias(const ModelSpec& spec, std::size_t layer, Role norm) {
  if (model::role_row(norm).place != model::RoleRow::Place::kBlock) return {};
  for (const model::BlockInput& input : model::block_inputs(spec, layer)) {
    if (input.norm != norm) continue;
    for (const model::Part& reader : input.readers) {
      const model::RoleRow& row = model::role_row(reader.role);
      if (row.bias_flag == nullptr && !row.always_has_bias) return reader.role;
    }
  }
  return {};
}

}  // namespace

FoldLegality gain_fold(const ModelSpec& spec, std::size_t layer, Role norm) {
  return read_by_linears_only(spec, layer, norm);
}

FoldLegality norm_bias_fold(const ModelSpec& spec, std::size_t layer, Role norm) {
  FoldLegality ruling = read_by_linears_only(spec, layer, norm);
  if (!ruling.legal) return ruling;
  if (is_weighed_for_experts(spec, layer, norm)) {
    return {false, "experts read it times a weight that differs from token to token"};
  }
  const std::optional<Role> reader = reader_without_bias(spec, layer, norm);
  if (!reader) return ruling;
  return {false, *reader == Role::kSharedRouter ? "the shared MLP's router has no bias that could take its part"
                                                : "the mixer has a linear without a bias that could take its part"};
}

FoldLegality layer_norm_to_rms(const ModelSpec& spec) {
  if (spec.norm.kind == NormSpec::Kind::kRms) return {false, "the norms are RMSNorms"};
  if (spec.layout == BlockLayout::kPostNorm) {
    return {false, "norms write the residual stream, and a gain after a norm shifts the mean again"};
  }
  if (spec.normalizes_returned())
    return {false, "norms write what is added to the residual stream, and their gains shift the mean"};
  if (spec.embedding_norm)
    return {false, "the embedding's norm writes the residual stream, and its gain shifts the mean"};
  if (spec.sinusoids) return {false, "the sines and cosines of positions have a mean, and are not stored"};
  if (reads_stream_itself(spec)) return {false, "a mixer reads the residual stream itself, with its mean"};
  if (spec.head_transform) return {false, "the head's norm reads an activation's output, whose mean is not 0"};
  if (spec.tied_embeddings)
    return {false, "a centred embedding would change the head, which is the same (--untie-head)"};
  return {true, "the embeddings and all linears that write the residual stream are centred: its mean is 0"};
}

KeyBiasRuling key_bias_drop(const LayerSpec& layer) {
  using enum KeyBiasRuling::Drop;
  const AttentionSpec* attention = layer.attention();
  if (attention == nullptr) return {kNone, "the layer has no keys"};
  if (attention->query_key_norm) return {kNone, "the key norm stands between it and the score"};
  if (attention->disentangled) return {kNone, "the projected distances of queries multiply it"};
  if (attention->score_cap > 0) return {kNone, "the score's cap stands between it and the softmax"};
  if (attention->sink_logits) return {kNone, "it shifts the scores against the head's own logit"};
  if (layer.latent() != nullptr || !attention->rope) {
    return {kWhole, "it adds the same to all scores of a query, which softmax drops"};
  }
  if (attention->rope->rotary_size < attention->head_size) {
    return {kUnrotated, "channels from " + std::to_string(attention->rope->rotary_size) +
                            " on of each head are not rotated: there it adds the same to all scores of a query; in the "
                            "others it is turned with each key's position"};
  }
  return {kNone, "it is rotated with each key's position, so it adds something else to every score"};
}

FoldLegality up_scaling(const MlpSpec& mlp) {
  if (mlp.has_limits()) {
    return {false, "what the gate multiplies is limited or shifted, which commutes with no factor"};
  }
  if (mlp.gated) return {true, "the gate multiplies channel by channel, the down projection takes the factor back"};
  if (mlp.activation == Activation::kRelu) {
    return {true, "ReLU commutes with positive factors, the down projection takes them back"};
  }
  return {false, "the activation stands between up and down and commutes with no factor"};
}

FoldLegality residual_rotation(const ModelSpec& spec, bool norms_are_folded) {
  if (spec.layout == BlockLayout::kPostNorm || spec.embedding_norm) {
    return {false, "norms write the residual stream, and their gains hold for the channels as they were"};
  }
  if (spec.normalizes_returned()) {
    return {false,
            "norms write what is added to the residual stream, and their gains hold for the channels as they were"};
  }
  if (spec.encoder) {
    return {false, "the encoder's last norm keeps its gain, which holds for the channels as they were"};
  }
  if (reads_stream_itself(spec)) return {false, "a mixer reads the residual stream itself, without a norm"};
  if (spec.norm.kind == NormSpec::Kind::kLayer) {
    return {false, "a LayerNorm subtracts the mean over the channels as they were"};
  }
  if (spec.tied_embeddings) {
    return {false, "the final norm's gain must be folded into the head, which is the embedding (--untie-head)"};
  }
  if (!norms_are_folded) return {false, "the norms keep their gains, and the recipe has fold_norms off"};
  if (spec.norm.bias) return {false, "the norms keep biases, which no rotation of the stream passes"};
  if (!model::Hadamard::of_order(spec.hidden_size)) {
    return {false, "no Hadamard matrix of order " + std::to_string(spec.hidden_size) + " is known here"};
  }
  return {true, "RMSNorm without a gain keeps only directions, and all linears that read the stream turn it back"};
}

std::string why_bias_stays(const LayerSpec& layer, Role linear) {
  const model::RoleRow& row = model::role_row(layer, linear);
  if (const char* why = row.why_bias_stays == nullptr ? nullptr : row.why_bias_stays(layer)) return why;
  return row.writes_stream ? "it is added to the residual stream, whose norms it shifts" : "what follows is not linear";
}

}  // namespace ballast::quant
