#include "quant/recipes/name_pattern.h"

#include "ballast/error.h"

namespace ballast::quant {

std::regex compile_name_pattern(const std::string& pattern, std::string_view context) {
  try {
    return std::regex(pattern, std::regex::ECMAScript);
  } catch (const std::regex_error& error) {
    throw Error(context, "'" + pattern + "' is not a regular expression: " + error.what());
  }
}

}  // namespace ballast::quant
