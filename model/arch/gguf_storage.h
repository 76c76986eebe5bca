// Values that llama.cpp's converter stores in another form than Hugging Face checkpoints do.
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

/// Changes a family's spec to that of its GGUFs, whose gains already include NormSpec::gain_offset.
void set_gguf_norms(ModelSpec& spec);

/// Turns the values of a vector in a GGUF into those of a Hugging Face checkpoint: the rates of a decay, which are
/// negative, become logarithms. Throws Error at `context` for a rate that is not negative.
void decode_gguf_vector(Role role, const std::string& context, std::span<float> values);

/// The order of the rows (for a vector: values) and columns of a role in a GGUF; empty: that of the forward pass.
struct GgufOrder {
  std::vector<std::size_t> rows;
  std::vector<std::size_t> cols;
};

/// Returns the order of the value heads of gated delta nets if Architecture::gguf_tiles_value_heads is set.
GgufOrder gguf_head_order(const Architecture& architecture, const LayerSpec& layer, Role role);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_ARCH_GGUF_STORAGE_H_
