// How llama.cpp's converter stores values where a Hugging Face checkpoint stores them in another way.
#ifndef BALLAST_MODEL_ARCH_GGUF_STORAGE_H_
#define BALLAST_MODEL_ARCH_GGUF_STORAGE_H_

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "ballast/spec.h"
#include "model/arch/architecture.h"
#include "model/arch/role.h"

namespace ballast::model {

/// Changes a family's spec to that of its GGUFs: NormSpec::gain_offset is already in the gains.
void set_gguf_norms(ModelSpec& spec);

/// Turns the values of a vector in a GGUF into those of a Hugging Face checkpoint: the rates of a decay, which are
/// negative, become logarithms. Throws Error at `context` for a rate that is not negative.
void decode_gguf_vector(Role role, const std::string& context, std::span<float> values);

/// Where a GGUF has the rows (a vector's: values) and the columns of a role; empty: in the order of the forward pass.
struct GgufOrder {
  std::vector<std::size_t> rows;
  std::vector<std::size_t> cols;
};

/// Returns the order of the value heads of gated delta nets where Architecture::gguf_tiles_value_heads.
GgufOrder gguf_head_order(const Architecture& architecture, const LayerSpec& layer, Role role);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_ARCH_GGUF_STORAGE_H_
