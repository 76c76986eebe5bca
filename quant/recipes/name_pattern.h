// The regular expressions by which a recipe names tensors.
#ifndef BALLAST_QUANT_RECIPES_NAME_PATTERN_H_
#define BALLAST_QUANT_RECIPES_NAME_PATTERN_H_

#include <regex>
#include <string>
#include <string_view>

namespace ballast::quant {

/// ECMAScript, to be searched anywhere in a name. Throws Error, beginning with `context`, when it is none.
std::regex compile_name_pattern(const std::string& pattern, std::string_view context);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_RECIPES_NAME_PATTERN_H_
