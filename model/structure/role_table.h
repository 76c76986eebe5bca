// The roles of a model's tensors, one row each: kind, models and layers that have it, shape, bias and input. Structure,
// loading, folds and planning follow from these rows.
#ifndef BALLAST_MODEL_STRUCTURE_ROLE_TABLE_H_
#define BALLAST_MODEL_STRUCTURE_ROLE_TABLE_H_

#include "ballast/spec.h"
#include "model/arch/role.h"
#include "model/roles/role_row.h"

namespace ballast::model {

/// Returns the row of a role in a layer that may have it. Roles of several mixers have a row in each.
const RoleRow& role_row(const LayerSpec& layer, Role role);

/// Returns a row with the properties that all rows of a role share: kind, place, bias flag, whether it writes the
/// stream.
const RoleRow& role_row(Role role);

/// Returns whether a layer has a role; for roles outside of blocks, whether the model has.
bool has_role(const ModelSpec& spec, const LayerSpec& layer, Role role);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_STRUCTURE_ROLE_TABLE_H_
