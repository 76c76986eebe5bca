// The text that is printed after a model was written.
#ifndef BALLAST_TOOLS_COMMANDS_CONVERSION_PAGE_H_
#define BALLAST_TOOLS_COMMANDS_CONVERSION_PAGE_H_

#include <filesystem>
#include <string>

#include "ballast/convert.h"

namespace ballast::tools {

/// Returns the effects of each pass, the formats of the tensors, and the sizes before and after. Without `verbose` the
/// table has at most a screen of rows.
std::string conversion_page(const ConvertReport& report, const std::filesystem::path& output, bool verbose);

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_COMMANDS_CONVERSION_PAGE_H_
