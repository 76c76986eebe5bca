// Serializes a converted block, for resuming after a kill.
#ifndef BALLAST_QUANT_CONVERSION_SAVED_BLOCK_H_
#define BALLAST_QUANT_CONVERSION_SAVED_BLOCK_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quant/write/converted_module.h"

namespace ballast::quant {

/// Serializes the parts of the modules that are not in a plan: values, and their types.
std::string save_modules(std::span<const ConvertedModule> modules);

/// Restores the modules from saved bytes and the plan. Throws Error if they do not match.
std::vector<ConvertedModule> restore_modules(std::string_view saved, std::vector<ModulePlan> plan);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_CONVERSION_SAVED_BLOCK_H_
