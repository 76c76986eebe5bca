#include <string>

#include "tools/manual/completion.h"

namespace ballast::tools {
namespace {

std::string quoted(const std::string& text) {
  std::string shell = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') shell += '\\';
    shell += c;
  }
  return shell + "'";
}

std::string option_line(const std::string& beginning, const OptionSheet& option) {
  std::string line = beginning;
  for (const std::string& name : option.names) {
    line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  if (!option.argument.empty()) {
    line += option.takes_path() ? " -r -F" : " -x";
    if (!option.values.empty()) line += " -a " + quoted(CLI::detail::join(option.values, " "));
  }
  return line + " -d " + quoted(option.help) + "\n";
}

}  // namespace

std::string fish_completion(const CommandSheet& program) {
  const std::string complete = "complete -c " + program.name;
  const std::string first = complete + " -n __fish_use_subcommand";
  std::string script = "# Completion of " + program.name + " in fish.\n";
  for (const OptionSheet& option : program.options) script += option_line(first, option);
  for (const CommandSheet& command : program.commands) {
    script += first + " -f -a " + command.name + " -d " + quoted(command.summary) + "\n";
  }
  for (const CommandSheet& command : program.commands) {
    const std::string within = complete + " -n '__fish_seen_subcommand_from " + command.name + "'";
    for (const OptionSheet& option : command.options) script += option_line(within, option);
  }
  return script;
}

}  // namespace ballast::tools
