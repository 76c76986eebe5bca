// The rows of the role table that do not belong to a mixer.
#ifndef BALLAST_MODEL_ROLES_COMMON_ROWS_H_
#define BALLAST_MODEL_ROLES_COMMON_ROWS_H_

#include <span>

#include "model/roles/role_row.h"

namespace ballast::model {

/// Return the rows outside of mixers, in the order of the forward pass: those outside of blocks, and those of a block.
/// In a block the mixer's rows come after the first row, which is the norm of its input.
std::span<const RoleRow> outer_rows();
std::span<const RoleRow> block_rows();

}  // namespace ballast::model

#endif  // BALLAST_MODEL_ROLES_COMMON_ROWS_H_
