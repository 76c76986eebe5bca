// The roles of a model's tensors.
#ifndef BALLAST_MODEL_ARCH_ROLE_H_
#define BALLAST_MODEL_ARCH_ROLE_H_

#include <cstdint>

namespace ballast::model {

/// The tensors of a model by their purpose; model/roles/role_row.h describes each.
enum class Role : std::uint16_t {
  kEmbedding,
  kPositionEmbedding,  ///< [context_length, hidden]
  kEncoderPositionEmbedding,
  kEncoderEmbeddingNorm,
  kTokenTypeEmbedding,  ///< [token_types, hidden]
  kEmbeddingNorm,
  kEmbeddingProjection,   ///< from the embedding's channels to the hidden size
  kTokenInputTable,       ///< each layer's own input of a token, [vocabulary, layers * channels]
  kTokenInputProjection,  ///< projects the embedding to these inputs
  kTokenInputNorm,        ///< of one layer's part of the projection's output
  kFinalNorm,
  kHeadTransform,
  kHeadNorm,
  kHead,
  kHeadBias,  ///< a vector, because the head's matrix may be the embedding's
  kClassifierTransform,
  kClassifierNorm,
  kClassifier,  ///< [labels, hidden]

  kDraftEmbeddingNorm,  ///< of a token's embedding, which the draft head reads
  kDraftModelNorm,      ///< the original model's last norm, of the last block's output for the token before
  kDraftHiddenNorm,     ///< of the result
  kDraftProjection,     ///< reads both and writes the input of the draft head's block
  kDraftNorm,           ///< of that block's output

  kAttentionNorm,  ///< before the block's first half, for any mixer
  kQueryDown,      ///< projects the input to the queries' latent vector
  kQueryDownNorm,
  kKeyValueDown,  ///< projects the input to the latent vector of keys and values
  kKeyValueDownNorm,
  kKeyPosition,  ///< the rotated part of a latent key, one for all heads
  kQuery,        ///< reads the normalized input, or the latent vector
  kKey,          ///< reads the same; in latent attention, the part of the heads' keys that is not rotated
  kValue,
  kQueryNorm,
  kKeyNorm,
  kOutputGate,
  kSinkLogits,        ///< a vector, one score per head
  kRelativeBias,      ///< a vector, [buckets][heads]
  kDistanceRows,      ///< a vector, [DisentangledSpec::rows()][hidden], one for all layers
  kDistanceRowsGain,  ///< vectors of their norm
  kDistanceRowsBias,
  kAttentionOutput,
  kDeltaQuery,
  kDeltaKey,
  kDeltaValue,
  kDeltaGate,         ///< its SiLU multiplies the heads' outputs
  kDeltaStrength,     ///< the fraction of a key's old value that is replaced
  kDeltaDecay,        ///< how much of the memory decays
  kDeltaConvolution,  ///< a vector, [channels][width]
  kDeltaDecayBias,    ///< a vector
  kDeltaDecayRate,    ///< a vector: logarithms
  kDeltaNorm,         ///< of a head's output
  kDeltaOutput,
  kConvolutionInputGate,   ///< multiplies the input of a short convolution
  kConvolutionOutputGate,  ///< multiplies its output
  kConvolutionInput,
  kConvolutionTaps,  ///< a vector, [channels][width]
  kConvolutionBias,  ///< a vector
  kConvolutionOutput,
  kMambaGate,             ///< its SiLU multiplies the heads' outputs; z in the paper
  kMambaValue,            ///< x
  kMambaKey,              ///< B: how a token's value is distributed over the memory
  kMambaQuery,            ///< C: reads the memory
  kMambaStep,             ///< dt: by how much the memory decays and how much it takes up
  kMambaConvolution,      ///< a vector, [channels][width]
  kMambaConvolutionBias,  ///< a vector
  kMambaStepBias,         ///< a vector
  kMambaDecayRate,        ///< a vector: logarithms
  kMambaSkip,             ///< a vector of factors; each value times its factor is added to the output; D
  kMambaNorm,             ///< of the outputs of a group's heads
  kMambaOutput,
  kAttentionPostNorm,  ///< of the mixer's output
  kMlpNorm,
  kGate,
  kUp,
  kDown,
  kMlpPostNorm,     ///< of the output of the MLP or the experts
  kEncoderNorm,     ///< of an encoder's output
  kTokenInputGate,  ///< multiplies the layer's own input of a token
  kTokenInputOutput,
  kTokenInputPostNorm,
  kLayerScale,  ///< a vector with one value
  kRouter,
  kRouterCorrection,  ///< a vector
  kSharedRouter,      ///< its output is a token's share of the shared MLP
  kSharedGate,
  kSharedUp,
  kSharedDown,
  kSharedPostNorm,  ///< of the shared MLP's output
  kExpertGate,
  kExpertUp,
  kExpertDown,
  kExpertsPostNorm,  ///< of the sum of the experts' outputs
};

}  // namespace ballast::model

#endif  // BALLAST_MODEL_ARCH_ROLE_H_
