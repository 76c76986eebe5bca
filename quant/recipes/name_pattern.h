// Regular expressions for names of tensors in a recipe.
#ifndef BALLAST_QUANT_RECIPES_NAME_PATTERN_H_
#define BALLAST_QUANT_RECIPES_NAME_PATTERN_H_

#include <regex>
#include <string>
#include <string_view>

namespace ballast::quant {

/// Compiles an ECMAScript expression, which is searched anywhere in a name. Throws Error, beginning with `context`, if
/// it is invalid.
std::regex compile_name_pattern(const std::string& pattern, std::string_view context);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_RECIPES_NAME_PATTERN_H_
