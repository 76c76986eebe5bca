#include "tools/manual/man_page.h"

#include <algorithm>
#include <cctype>
#include <sstream>

namespace ballast::tools {
namespace {

/// Escapes text, with hyphens that can be copied into a shell.
std::string escaped(std::string_view text) {
  std::string roff;
  for (const char c : text) {
    const bool begins_line = roff.empty() || roff.back() == '\n';
    if (begins_line && (c == '.' || c == '\'')) roff += "\\&";
    if (c == '\\') {
      roff += "\\e";
    } else if (c == '-') {
      roff += "\\-";
    } else if (c == '\'') {
      roff += "\\(aq";
    } else {
      roff += c;
    }
  }
  return roff;
}

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

std::string page_name(const CommandSheet& program, const CommandSheet& command) {
  return &command == &program ? program.name : program.name + "-" + command.name;
}

std::string invocation(const CommandSheet& program, const CommandSheet& command) {
  return &command == &program ? program.name : program.name + " " + command.name;
}

std::string synopsis(const CommandSheet& program, const CommandSheet& command) {
  std::string line = ".SH SYNOPSIS\n.B " + escaped(invocation(program, command)) + "\n[\\fIOPTION\\fR]...";
  for (const OptionSheet& option : command.options) {
    if (option.notes.find("REQUIRED") == std::string::npos) continue;
    line += " \\fB" + escaped(option.names.back()) + "\\fR \\fI" + escaped(option.argument) + "\\fR";
  }
  for (const OptionSheet& positional : command.positionals)
    line += " \\fI" + escaped(positional.names.front()) + "\\fR";
  line += "\n";
  if (!command.commands.empty()) {
    line += ".br\n.B " + escaped(program.name) + "\n\\fICOMMAND\\fR [\\fIOPTION\\fR]... \\fIMODEL\\fR\n";
  }
  return line;
}

std::string paragraph(const OptionSheet& option, bool positional) {
  std::string heads;
  for (const std::string& name : option.names) {
    heads += (heads.empty() ? "" : ", ") + std::string(positional ? "\\fI" : "\\fB") + escaped(name) + "\\fR";
  }
  if (!option.argument.empty()) heads += " \\fI" + escaped(option.argument) + "\\fR";
  if (!option.notes.empty()) heads += " " + escaped(option.notes);
  return ".TP\n" + heads + "\n" + escaped(option.help) + "\n";
}

std::string option_sections(const CommandSheet& command) {
  std::string text;
  if (!command.positionals.empty()) text += ".SH ARGUMENTS\n";
  for (const OptionSheet& positional : command.positionals) text += paragraph(positional, true);
  text += ".SH OPTIONS\n";
  for (const OptionSheet& option : command.options) text += paragraph(option, false);
  return text;
}

std::string command_section(const CommandSheet& program) {
  std::string text = ".SH COMMANDS\n";
  for (const CommandSheet& command : program.commands) {
    text += ".TP\n.BR " + escaped(page_name(program, command)) + " (1)\n" + escaped(command.summary) + "\n";
  }
  return text;
}

/// Formats "Example:" and the lines below it.
std::string titled_section(const std::string& block) {
  const std::size_t end = block.find(":\n");
  return ".SH " + escaped(upper(block.substr(0, end))) + "\n.EX\n" + escaped(block.substr(end + 2)) + "\n.EE\n";
}

std::string footer_sections(const std::string& footer) {
  std::string titled;
  std::string notes;
  std::istringstream lines(footer + "\n\n");
  std::string block;
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) {
      block += (block.empty() ? "" : "\n") + line;
      continue;
    }
    if (block.empty()) continue;
    if (block.find(":\n ") != std::string::npos) {
      titled += titled_section(block);
    } else {
      notes += (notes.empty() ? ".SH NOTES\n" : ".PP\n") + escaped(block) + "\n";
    }
    block.clear();
  }
  return notes + titled;
}

constexpr const char* kExitStatus = R"(.SH EXIT STATUS
.TP
0
Done.
.TP
1
Failed; standard error says why, in one line.
.TP
2
Wrong usage.
)";

std::string see_also(const CommandSheet& program, const CommandSheet& command) {
  std::string text = ".SH SEE ALSO\n";
  const auto add = [&](const std::string& page) { text += ".BR " + escaped(page) + " (1),\n"; };
  if (&command != &program) add(program.name);
  for (const CommandSheet& other : program.commands) {
    if (other.name != command.name) add(page_name(program, other));
  }
  text.erase(text.size() - 2, 1);  // the last comma
  return text;
}

}  // namespace

std::string man_page(const CommandSheet& program, const CommandSheet& command, std::string_view version) {
  const std::string name = page_name(program, command);
  std::string summary = command.summary;
  if (!summary.empty() && summary.back() == '.') summary.pop_back();
  std::string page = ".TH " + escaped(upper(name)) + " 1 \"\" \"" + escaped(program.name + " ") + std::string(version) +
                     "\" \"User Commands\"\n";
  page += ".SH NAME\n" + escaped(name) + " \\- " + escaped(summary) + "\n";
  page += synopsis(program, command);
  if (!command.commands.empty()) page += command_section(program);
  page += option_sections(command) + footer_sections(command.footer) + kExitStatus + see_also(program, command);
  return page;
}

}  // namespace ballast::tools
