// Identifies a module of a model.
#ifndef BALLAST_QUANT_BLOCK_MODULE_ID_H_
#define BALLAST_QUANT_BLOCK_MODULE_ID_H_

#include <compare>
#include <cstddef>

#include "model/arch/role.h"

namespace ballast::quant {

struct ModuleId {
  model::Role role{};
  std::size_t layer = 0;   ///< 0 outside of the blocks
  std::size_t expert = 0;  ///< among the routed ones; of a vocabulary's matrix the index of a range of rows

  auto operator<=>(const ModuleId&) const = default;
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_BLOCK_MODULE_ID_H_
