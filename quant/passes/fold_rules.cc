#include "quant/passes/fold_rules.h"

#include "quant/passes/hadamard.h"

namespace ballast::quant {

using model::Role;

namespace {

constexpr const char* kTiedHead = "the head is the embedding, which is also read without this norm (--untie-head)";

/// Whether only linears read what a norm writes.
FoldLegality read_by_linears_only(const ModelSpec& spec, Role norm) {
  switch (norm) {
    case Role::kQueryNorm:
    case Role::kKeyNorm:
      if (spec.positions == PositionKind::kRope) {
        return {false, "the rotation stands behind it, and commutes only with equal gains in both channels of a pair"};
      }
      return {false, "the score stands behind it, no linear"};
    case Role::kEmbeddingNorm:
      return {false, "it writes the residual stream itself, which all blocks add to"};
    case Role::kQueryDownNorm:
    case Role::kKeyValueDownNorm:
      return {true, "only linears read the latent vector"};
    case Role::kHeadNorm:
      if (spec.tied_embeddings) return {false, kTiedHead};
      return {true, "only the head reads it"};
    case Role::kFinalNorm:
      if (spec.head_transform) return {true, "only the head's transform reads it"};
      if (spec.tied_embeddings) return {false, kTiedHead};
      return {true, "only the head reads it"};
    default:
      if (spec.layout == BlockLayout::kPostNorm) {
        return {false, "it writes the residual stream itself, which is read and added to further on"};
      }
      if (spec.layout == BlockLayout::kParallelShared) return {true, "only attention's and MLP's linears read it"};
      return {true, "only linears read it"};
  }
}

/// What stands between the values and the output projection, other than the attention's weights.
std::string gate_text(OutputGate gate) {
  return gate == OutputGate::kPerHead ? "the output gate multiplies it, by head and differently for every token"
                                      : "the output gate multiplies it, by element and differently for every token";
}

}  // namespace

FoldLegality gain_fold(const ModelSpec& spec, Role norm) {
  return read_by_linears_only(spec, norm);
}

FoldLegality norm_bias_fold(const ModelSpec& spec, Role norm) {
  const bool mlp_reads =
      norm == Role::kMlpNorm || (norm == Role::kAttentionNorm && spec.layout == BlockLayout::kParallelShared);
  FoldLegality ruling = read_by_linears_only(spec, norm);
  if (ruling.legal && mlp_reads && spec.experts) {
    return {false, "the router reads it too and has no bias that could take its part"};
  }
  return ruling;
}

FoldLegality layer_norm_to_rms(const ModelSpec& spec) {
  if (spec.norm.kind == NormSpec::Kind::kRms) return {false, "the norms are RMSNorms"};
  if (spec.layout == BlockLayout::kPostNorm) {
    return {false, "norms write the residual stream, and a gain behind a norm shifts the mean again"};
  }
  if (spec.embedding_norm)
    return {false, "the embedding's norm writes the residual stream, and its gain shifts the mean"};
  if (spec.head_transform) return {false, "the head's norm reads an activation's output, whose mean is not 0"};
  if (spec.tied_embeddings)
    return {false, "a centred embedding would change the head, which is the same (--untie-head)"};
  return {true, "the embeddings and all linears that write the residual stream are centred: its mean is 0"};
}

FoldLegality value_bias_fold(const ModelSpec& spec) {
  if (spec.output_gate != OutputGate::kNone) return {false, gate_text(spec.output_gate)};
  return {true, spec.kv_heads == spec.heads
                    ? "a query's attention weights sum to 1"
                    : "a query's attention weights sum to 1; it is repeated for the heads that share a value head"};
}

KeyBiasRuling key_bias_drop(const ModelSpec& spec) {
  using enum KeyBiasRuling::Drop;
  if (spec.query_key_norm) return {kNone, "the key norm stands between it and the score"};
  if (spec.latent) return {kWhole, "it adds the same to all scores of a query, which softmax drops"};
  if (spec.positions != PositionKind::kRope) {
    return {kWhole, "it adds the same to all scores of a query, which softmax drops"};
  }
  if (spec.rope.rotary_size < spec.head_size) {
    return {kUnrotated, "channels from " + std::to_string(spec.rope.rotary_size) +
                            " on of each head are not rotated: there it adds the same to all scores of a query; in the "
                            "others it is turned with each key's position"};
  }
  return {kNone, "it is rotated with each key's position, so it adds something else to every score"};
}

FoldLegality value_scaling(const ModelSpec& spec) {
  if (spec.output_gate == OutputGate::kPerElement) {
    return {true, "attention and gate work channel by channel, the output projection takes the factor back"};
  }
  return {true, "attention mixes tokens, not channels, and the output projection takes the factor back"};
}

FoldLegality up_scaling(const ModelSpec& spec) {
  if (spec.gated_mlp)
    return {true, "the gate multiplies channel by channel, the down projection takes the factor back"};
  if (spec.activation == Activation::kRelu) {
    return {true, "ReLU commutes with positive factors, the down projection takes them back"};
  }
  return {false, "the activation stands between up and down and commutes with no factor"};
}

FoldLegality value_rotation(const ModelSpec& spec) {
  if (spec.output_gate == OutputGate::kPerElement) {
    return {false, "the output gate multiplies each channel of a head by a factor of its own"};
  }
  return {true, "attention mixes tokens, not channels, and the output projection turns each head back"};
}

FoldLegality residual_rotation(const ModelSpec& spec, bool norms_are_folded) {
  if (spec.layout == BlockLayout::kPostNorm || spec.embedding_norm) {
    return {false, "norms write the residual stream, and their gains hold for the channels as they were"};
  }
  if (spec.norm.kind == NormSpec::Kind::kLayer) {
    return {false, "a LayerNorm subtracts the mean over the channels as they were"};
  }
  if (spec.tied_embeddings) {
    return {false, "the final norm's gain must be folded into the head, which is the embedding (--untie-head)"};
  }
  if (!norms_are_folded) return {false, "the norms keep their gains, and the recipe has fold_norms off"};
  if (spec.norm.bias) return {false, "the norms keep biases, which no rotation of the stream passes"};
  if (!Hadamard::of_order(spec.hidden_size)) {
    return {false, "no Hadamard matrix of order " + std::to_string(spec.hidden_size) + " is known here"};
  }
  return {true, "RMSNorm without a gain keeps only directions, and all linears that read the stream turn it back"};
}

std::string why_bias_stays(const ModelSpec& spec, Role linear) {
  switch (linear) {
    case Role::kQuery:
      return spec.query_key_norm ? "the query norm stands behind it, and it meets every key differently"
                                 : "it meets every key differently";
    case Role::kOutputGate:
      return "the sigmoid stands behind it";
    case Role::kQueryDown:
    case Role::kKeyValueDown:
      return "the latent vector's norm stands behind it";
    case Role::kKeyPosition:
      return "it is rotated with each key's position, so it adds something else to every score";
    case Role::kUp:
    case Role::kSharedUp:
    case Role::kExpertUp:
      return spec.gated_mlp ? "the gate multiplies it, differently for every token" : "the activation stands behind it";
    case Role::kGate:
    case Role::kSharedGate:
    case Role::kExpertGate:
    case Role::kHeadTransform:
      return "the activation stands behind it";
    case Role::kHeadBias:
      return "it is added to the logits";
    case Role::kExpertDown:
      return "the router's weights multiply it, differently for every token";
    default:
      return "it is added to the residual stream, whose norms it shifts";
  }
}

}  // namespace ballast::quant
