// What a tensor of a model is for.
#ifndef BALLAST_MODEL_ARCH_ROLE_H_
#define BALLAST_MODEL_ARCH_ROLE_H_

#include <cstdint>

namespace ballast::model {

/// The tensors of a model by their purpose; model/role_table.h describes each.
enum class Role : std::uint16_t {
  kEmbedding,
  kPositionEmbedding,   ///< [context_length, hidden]
  kTokenTypeEmbedding,  ///< [token_types, hidden]
  kEmbeddingNorm,
  kTokenInputTable,       ///< each layer's own input of a token, [vocabulary, layers * channels]
  kTokenInputProjection,  ///< projects the embedding to these inputs
  kTokenInputNorm,        ///< of one layer's part of that projection
  kFinalNorm,
  kHeadTransform,
  kHeadNorm,
  kHead,
  kHeadBias,  ///< a vector, because the head's matrix may be the embedding's

  kAttentionNorm,  ///< before the block's first half, for any mixer
  kQueryDown,      ///< into the queries' latent vector
  kQueryDownNorm,
  kKeyValueDown,  ///< into the keys' and values' latent vector
  kKeyValueDownNorm,
  kKeyPosition,  ///< the rotated part of a latent key, one for all heads
  kQuery,        ///< from the normalized input, or from the latent vector
  kKey,          ///< so do these; in latent attention the plain part of the heads' keys
  kValue,
  kQueryNorm,
  kKeyNorm,
  kOutputGate,
  kSinkLogits,  ///< a vector, one score per head
  kAttentionOutput,
  kDeltaQuery,
  kDeltaKey,
  kDeltaValue,
  kDeltaGate,         ///< its SiLU multiplies the heads' outputs
  kDeltaStrength,     ///< the fraction of a key's old value that is replaced
  kDeltaDecay,        ///< how much of the memory goes
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
  kMambaKey,              ///< B: where in the memory a token's value goes
  kMambaQuery,            ///< C: reads the memory
  kMambaStep,             ///< dt: by how much the memory decays and takes up
  kMambaConvolution,      ///< a vector, [channels][width]
  kMambaConvolutionBias,  ///< a vector
  kMambaStepBias,         ///< a vector
  kMambaDecayRate,        ///< a vector: logarithms
  kMambaSkip,             ///< a vector: factor on a value that is added to the output; D
  kMambaNorm,             ///< of the outputs of a group's heads
  kMambaOutput,
  kAttentionPostNorm,  ///< of the mixer's output
  kMlpNorm,
  kGate,
  kUp,
  kDown,
  kMlpPostNorm,     ///< of the output of the MLP or the experts
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

  kFirstRegistered,  ///< mixers from outside (model/mixer/mixer.h) number theirs from here
};

/// The role of number `index` among those that mixers from outside bring.
constexpr Role registered_role(std::uint16_t index) {
  return static_cast<Role>(static_cast<std::uint16_t>(Role::kFirstRegistered) + index);
}

}  // namespace ballast::model

#endif  // BALLAST_MODEL_ARCH_ROLE_H_
