// What is printed when a model was written.
#ifndef BALLAST_TOOLS_COMMANDS_CONVERSION_PAGE_H_
#define BALLAST_TOOLS_COMMANDS_CONVERSION_PAGE_H_

#include <filesystem>
#include <string>

#include "ballast/convert.h"

namespace ballast::tools {

/// Returns what each pass did, what became of the tensors, and how large they were and are. Not `verbose`: at most a
/// screen of rows.
std::string conversion_page(const ConvertReport& report, const std::filesystem::path& output, bool verbose);

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_COMMANDS_CONVERSION_PAGE_H_
