// Man pages of the program and of its commands.
#ifndef BALLAST_TOOLS_MANUAL_MAN_PAGE_H_
#define BALLAST_TOOLS_MANUAL_MAN_PAGE_H_

#include <string>
#include <string_view>

#include "tools/manual/command_sheet.h"

namespace ballast::tools {

/// Returns the page of `command`, one of program.commands or the program itself, in man's macros and without a date:
/// the same program gives the same bytes. Its name is ballast(1), or for example ballast-run(1).
std::string man_page(const CommandSheet& program, const CommandSheet& command, std::string_view version);

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_MANUAL_MAN_PAGE_H_
