// The list of architectures. Each is defined in a file of its name.
#ifndef BALLAST_MODEL_ARCH_ARCHITECTURES_H_
#define BALLAST_MODEL_ARCH_ARCHITECTURES_H_

#include "model/arch/architecture.h"

/// Calls ADD for each architecture, one line each.
#define BALLAST_ARCHITECTURES(ADD) \
  ADD(kLlama)                      \
  ADD(kMistral)                    \
  ADD(kQwen2)                      \
  ADD(kQwen3)                      \
  ADD(kQwen3Next)                  \
  ADD(kGpt2)                       \
  ADD(kGptNeox)                    \
  ADD(kBert)                       \
  ADD(kDeepseekV2)                 \
  ADD(kDeepseekV3)                 \
  ADD(kPalm)                       \
  ADD(kGopher)                     \
  ADD(kMegatron)                   \
  ADD(kPhi)                        \
  ADD(kQwen3Moe)                   \
  ADD(kMixtral)                    \
  ADD(kQwen35)                     \
  ADD(kQwen35Text)                 \
  ADD(kQwen35Moe)                  \
  ADD(kQwen35MoeText)              \
  ADD(kGranite)                    \
  ADD(kSmolLm3)                    \
  ADD(kStarcoder2)                 \
  ADD(kCohere)                     \
  ADD(kCohere2)                    \
  ADD(kGlm)                        \
  ADD(kGlm4)                       \
  ADD(kErnie45)                    \
  ADD(kGemma)                      \
  ADD(kGemma3Text)                 \
  ADD(kGemma3)                     \
  ADD(kPhi3)                       \
  ADD(kStableLm)                   \
  ADD(kOlmo2)                      \
  ADD(kOlmo3)                      \
  ADD(kOlmoe)                      \
  ADD(kGraniteMoe)                 \
  ADD(kMinistral)                  \
  ADD(kQwen2Moe)                   \
  ADD(kSeedOss)                    \
  ADD(kExaone4)                    \
  ADD(kGlm4Moe)                    \
  ADD(kLfm2)                       \
  ADD(kNemotron)                   \
  ADD(kArcee)                      \
  ADD(kHelium)                     \
  ADD(kGemma2)                     \
  ADD(kGptOss)                     \
  ADD(kGemma4Text)                 \
  ADD(kGemma4)                     \
  ADD(kGraniteMoeHybrid)           \
  ADD(kFalconH1)                   \
  ADD(kNemotronH)                  \
  ADD(kGlm4MoeLite)                \
  ADD(kCwm)                        \
  ADD(kInternLm3)                  \
  ADD(kIquestCoder)                \
  ADD(kJais2)                      \
  ADD(kMinistral3)                 \
  ADD(kMistral3)                   \
  ADD(kOlmo)                       \
  ADD(kFlexOlmo)                   \
  ADD(kGraniteMoeShared)           \
  ADD(kHyperClovaX)                \
  ADD(kDots1)                      \
  ADD(kSolarOpen)                  \
  ADD(kHunyuanDense)               \
  ADD(kHunyuanMoe)                 \
  ADD(kHy3)                        \
  ADD(kQwen2Vl)                    \
  ADD(kQwen25Vl)                   \
  ADD(kQwen3Vl)                    \
  ADD(kNanoChat)                   \
  ADD(kMiniMaxM2)                  \
  ADD(kMellum)                     \
  ADD(kErnie45Moe)                 \
  ADD(kExaoneMoe)                  \
  ADD(kLfm2Moe)                    \
  ADD(kLfm3)                       \
  ADD(kAfmoe)                      \
  ADD(kVaultGemma)                 \
  ADD(kMistral4)                   \
  ADD(kLlama4Text)                 \
  ADD(kLlama4)                     \
  ADD(kModernBert)                 \
  ADD(kMimo)                       \
  ADD(kRoberta)                    \
  ADD(kXlmRoberta)                 \
  ADD(kCamembert)                  \
  ADD(kMpnet)                      \
  ADD(kDistilbert)                 \
  ADD(kNomicBert)                  \
  ADD(kGte)                        \
  ADD(kNew)                        \
  ADD(kJinaEmbeddingsV3)           \
  ADD(kElectra)                    \
  ADD(kAlbert)                     \
  ADD(kDebertaV2)                  \
  ADD(kEuroBert)                   \
  ADD(kT5)                         \
  ADD(kMt5)                        \
  ADD(kUmt5)                       \
  ADD(kBart)                       \
  ADD(kMbart)                      \
  ADD(kPegasus)                    \
  ADD(kMarian)                     \
  ADD(kM2m100)

namespace ballast::model {

#define BALLAST_DECLARE(name) extern const Architecture name;
BALLAST_ARCHITECTURES(BALLAST_DECLARE)
#undef BALLAST_DECLARE

}  // namespace ballast::model

#endif  // BALLAST_MODEL_ARCH_ARCHITECTURES_H_
