// What a tensor of a model is for.
#ifndef BALLAST_MODEL_ARCH_ROLE_H_
#define BALLAST_MODEL_ARCH_ROLE_H_

#include <cstdint>

namespace ballast::model {

/// model/role_table.h says of each what it is and which models have it.
enum class Role : std::uint16_t {
  kEmbedding,
  kPositionEmbedding,   ///< [context_length, hidden]
  kTokenTypeEmbedding,  ///< [token_types, hidden]
  kEmbeddingNorm,
  kTokenInputTable,       ///< what each layer gets of a token, [vocabulary, layers * channels]
  kTokenInputProjection,  ///< the same of its embedding
  kTokenInputNorm,        ///< of one layer's part of that
  kFinalNorm,
  kHeadTransform,
  kHeadNorm,
  kHead,
  kHeadBias,  ///< a vector of its own, because the head's matrix may be the embedding's

  kAttentionNorm,  ///< of the block's first half, whatever its mixer is
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
  kSinkLogits,  ///< a vector of its own, a score for each head
  kAttentionOutput,
  kDeltaQuery,
  kDeltaKey,
  kDeltaValue,
  kDeltaGate,         ///< SiLU of it multiplies what the heads return
  kDeltaStrength,     ///< how much of a key's old value gives way
  kDeltaDecay,        ///< how much of the memory goes
  kDeltaConvolution,  ///< a vector of its own, [channels][width]
  kDeltaDecayBias,    ///< a vector of its own
  kDeltaDecayRate,    ///< a vector of its own: logarithms
  kDeltaNorm,         ///< of what a head returns
  kDeltaOutput,
  kConvolutionInputGate,   ///< multiplies what a short convolution reads
  kConvolutionOutputGate,  ///< multiplies what it returns
  kConvolutionInput,
  kConvolutionTaps,  ///< a vector of its own, [channels][width]
  kConvolutionBias,  ///< a vector of its own
  kConvolutionOutput,
  kMambaGate,             ///< SiLU of it multiplies what the heads return; z of the paper
  kMambaValue,            ///< x
  kMambaKey,              ///< B: where in the memory a token's value goes
  kMambaQuery,            ///< C: what of the memory a token gets
  kMambaStep,             ///< dt: by how much the memory decays and takes up
  kMambaConvolution,      ///< a vector of its own, [channels][width]
  kMambaConvolutionBias,  ///< a vector of its own
  kMambaStepBias,         ///< a vector of its own
  kMambaDecayRate,        ///< a vector of its own: logarithms
  kMambaSkip,             ///< a vector of its own: how much of a value goes past the memory; D
  kMambaNorm,             ///< of what a group's heads return
  kMambaOutput,
  kAttentionPostNorm,  ///< of what the mixer, whatever it is, returns
  kMlpNorm,
  kGate,
  kUp,
  kDown,
  kMlpPostNorm,     ///< of what the MLP or the experts return
  kTokenInputGate,  ///< multiplies what the layer gets of a token
  kTokenInputOutput,
  kTokenInputPostNorm,
  kLayerScale,  ///< a vector of its own, of one value
  kRouter,
  kRouterCorrection,  ///< a vector of its own
  kSharedRouter,      ///< its one output says how much of the shared MLP a token gets
  kSharedGate,
  kSharedUp,
  kSharedDown,
  kSharedPostNorm,  ///< of what the shared MLP returns
  kExpertGate,
  kExpertUp,
  kExpertDown,
  kExpertsPostNorm,  ///< of what the experts return, summed

  kFirstRegistered,  ///< mixers from outside (model/mixer/mixer.h) number theirs from here
};

/// The role of number `index` among those that mixers from outside bring.
constexpr Role registered_role(std::uint16_t index) {
  return static_cast<Role>(static_cast<std::uint16_t>(Role::kFirstRegistered) + index);
}

}  // namespace ballast::model

#endif  // BALLAST_MODEL_ARCH_ROLE_H_
