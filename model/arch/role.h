// What a tensor of a model is for.
#ifndef BALLAST_MODEL_ARCH_ROLE_H_
#define BALLAST_MODEL_ARCH_ROLE_H_

namespace ballast::model {

/// Those from kAttentionNorm on exist once per block, those from kExpertGate on once per expert.
enum class Role {
  kEmbedding,
  kPositionEmbedding,   ///< [context_length, hidden]
  kTokenTypeEmbedding,  ///< [token_types, hidden]
  kEmbeddingNorm,
  kFinalNorm,
  kHeadTransform,
  kHeadNorm,
  kHead,
  kHeadBias,  ///< a vector of its own, because the head's matrix may be the embedding's

  kAttentionNorm,
  kQueryDown,  ///< into the queries' latent vector
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
  kAttentionOutput,
  kMlpNorm,
  kGate,
  kUp,
  kDown,
  kRouter,
  kRouterCorrection,  ///< a vector of its own
  kSharedGate,
  kSharedUp,
  kSharedDown,
  kExpertGate,
  kExpertUp,
  kExpertDown,
};

}  // namespace ballast::model

#endif  // BALLAST_MODEL_ARCH_ROLE_H_
