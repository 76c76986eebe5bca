// What the spec says about tensors: which there are, their shapes, and who reads what.
#ifndef BALLAST_MODEL_BLOCK_STRUCTURE_H_
#define BALLAST_MODEL_BLOCK_STRUCTURE_H_

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "ballast/spec.h"
#include "model/arch/role.h"

namespace ballast::model {

/// A linear or a norm of a block; `expert` counts among the routed ones.
struct Part {
  Role role{};
  std::size_t expert = 0;

  bool operator==(const Part&) const = default;
};

/// Values that linears read together.
struct BlockInput {
  std::optional<Role> norm;  ///< whose output this is, when nobody else reads it: its gain and bias can be folded
  std::vector<Part> readers;
};

/// All linears of a block, by what they read, in the order of the forward pass.
std::vector<BlockInput> block_inputs(const ModelSpec& spec, std::size_t layer);

/// Norms of a block, in the order of the forward pass.
std::vector<Role> block_norms(const ModelSpec& spec);

/// The linears of block_inputs, flat.
std::vector<Part> block_linears(const ModelSpec& spec, std::size_t layer);

/// What stands before the first block and behind the last one, in the order of the forward pass.
std::vector<Role> outer_roles(const ModelSpec& spec);

bool is_norm(Role role);

/// A role that is one vector, stored under a full name of its own.
bool is_vector(Role role);

/// Kind, epsilon, bias and offset of a norm: query and key norms and those of latent vectors are RMSNorms without bias.
NormSpec norm_spec(const ModelSpec& spec, Role role);

/// [outputs, inputs] of a linear; [1, channels] of a norm or a vector.
std::pair<std::size_t, std::size_t> matrix_shape(const ModelSpec& spec, Role role);

/// The flag that says whether a linear has a bias (the head's is kHeadBias, a vector of its own); null for what has
/// none or always has one.
bool BiasSpec::* bias_flag(Role role);

bool has_bias(const ModelSpec& spec, Role role);

/// Channels of a head before its rotated ones.
inline std::size_t rotary_offset(const ModelSpec& spec) {
  return spec.latent ? spec.head_size - spec.rope.rotary_size : 0;
}

}  // namespace ballast::model

#endif  // BALLAST_MODEL_BLOCK_STRUCTURE_H_
