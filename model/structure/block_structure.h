// The structure of a model's tensors by its spec, from the rows of the role table: which exist, their shapes, and their
// inputs.
#ifndef BALLAST_MODEL_STRUCTURE_BLOCK_STRUCTURE_H_
#define BALLAST_MODEL_STRUCTURE_BLOCK_STRUCTURE_H_

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "ballast/spec.h"
#include "model/structure/role_table.h"

namespace ballast::model {

/// Values that several linears read.
struct BlockInput {
  std::optional<Role>
      norm;  ///< the norm whose output this is, if it has no other readers: its gain and bias can be folded
  std::vector<Part> readers;
  std::optional<Role> gated_norm = {};  ///< the norm of each of its heads, before a gate: only its gain can be folded
};

/// Returns all linears of a block, grouped by their input, in the order of the forward pass.
std::vector<BlockInput> block_inputs(const ModelSpec& spec, std::size_t layer);

/// Returns the norms of a block, in the order of the forward pass.
std::vector<Role> block_norms(const ModelSpec& spec, std::size_t layer);

/// Returns the linears of block_inputs as one list.
std::vector<Part> block_linears(const ModelSpec& spec, std::size_t layer);

/// Returns the vectors of a block.
std::vector<Role> block_vectors(const ModelSpec& spec, std::size_t layer);

/// Returns the roles outside of the blocks, in the order of the forward pass.
std::vector<Role> outer_roles(const ModelSpec& spec);

/// The roles of a draft head outside of its block, in the order of the forward pass.
inline constexpr std::array kDraftRoles = {Role::kDraftEmbeddingNorm, Role::kDraftModelNorm, Role::kDraftHiddenNorm,
                                           Role::kDraftProjection, Role::kDraftNorm};

bool is_norm(Role role);

/// Returns whether a role is one vector, stored under its own full name.
bool is_vector(Role role);

/// Returns kind, epsilon, bias and offset of a norm. Here and below `layer` has no effect for roles outside of blocks.
NormSpec norm_spec(const ModelSpec& spec, std::size_t layer, Role role);

/// Returns the shape of a matrix: [outputs, inputs] of a linear, [1, channels] of a norm or a vector.
MatrixShape matrix_shape(const ModelSpec& spec, std::size_t layer, Role role);

bool has_bias(const ModelSpec& spec, std::size_t layer, Role role);

/// Returns the number of weights of a model, with norms, vectors and biases. A matrix that is both the embedding and
/// the head counts once.
std::size_t count_weights(const ModelSpec& spec);

/// Returns how many of a layer's linears of this role one token passes, on average, divided by their number.
inline double token_share(const LayerSpec& layer, Role role) {
  return role_row(role).place == RoleRow::Place::kExpert ? layer.mlp.expert_share() : 1.0;
}

}  // namespace ballast::model

#endif  // BALLAST_MODEL_STRUCTURE_BLOCK_STRUCTURE_H_
