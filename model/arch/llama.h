// Llama 1 to 3 and the many models of its shape: RMSNorm, RoPE, grouped heads, gated SiLU MLP.
#ifndef BALLAST_MODEL_ARCH_LLAMA_H_
#define BALLAST_MODEL_ARCH_LLAMA_H_

#include "model/arch/architecture.h"

namespace ballast::model {

extern const Architecture kLlama;

}  // namespace ballast::model

#endif  // BALLAST_MODEL_ARCH_LLAMA_H_
