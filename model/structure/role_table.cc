#include "model/structure/role_table.h"

#include <algorithm>
#include <cassert>
#include <span>

#include "model/mixer/mixer_kind.h"
#include "model/roles/common_rows.h"

namespace ballast::model {

namespace {

const RoleRow* find_row(std::span<const RoleRow> rows, Role role) {
  const auto it = std::ranges::find(rows, role, &RoleRow::role);
  return it == rows.end() ? nullptr : &*it;
}

const RoleRow* find_common_row(Role role) {
  const RoleRow* outer = find_row(outer_rows(), role);
  return outer != nullptr ? outer : find_row(block_rows(), role);
}

const RoleRow* find_row(const LayerSpec& layer, Role role) {
  const RoleRow* common = find_common_row(role);
  return common != nullptr ? common : find_row(mixer_kind(layer).roles, role);
}

}  // namespace

const RoleRow& role_row(const LayerSpec& layer, Role role) {
  const RoleRow* row = find_row(layer, role);
  assert(row != nullptr);
  return *row;
}

const RoleRow& role_row(Role role) {
  if (const RoleRow* common = find_common_row(role)) return *common;
  const RoleRow* row = nullptr;
  for (const MixerKind* kind : mixer_kinds()) {
    if (row == nullptr) row = find_row(kind->roles, role);
  }
  assert(row != nullptr);
  return *row;
}

bool has_role(const ModelSpec& spec, const LayerSpec& layer, Role role) {
  const RoleRow* row = find_row(layer, role);
  return row != nullptr && (row->present == nullptr || row->present(spec, layer));
}

}  // namespace ballast::model
