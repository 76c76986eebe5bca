#include <string>

#include "tools/manual/completion.h"

namespace ballast::tools {
namespace {

/// Escapes text for single quotes and for _arguments.
std::string escaped(const std::string& text) {
  std::string shell;
  for (const char c : text) {
    if (c == '\'') {
      shell += "'\\''";
      continue;
    }
    if (c == '\\' || c == '[' || c == ']' || c == ':') shell += '\\';
    shell += c;
  }
  return shell;
}

/// Returns ":N:" and its completion.
std::string argument_spec(const OptionSheet& option) {
  if (option.argument.empty()) return "";
  std::string action = option.takes_path() ? "_files" : " ";
  if (!option.values.empty()) action = "(" + CLI::detail::join(option.values, " ") + ")";
  return ":" + escaped(option.argument) + ":" + action;
}

std::string option_specs(const CommandSheet& sheet, const std::string& indent) {
  std::string specs;
  for (const OptionSheet& option : sheet.options) {
    for (const std::string& name : option.names) {
      const std::string others = option.repeatable ? "*" : "(" + CLI::detail::join(option.names, " ") + ")";
      specs += " \\\n" + indent + "'" + others + name + "[" + escaped(option.help) + "]" + argument_spec(option) + "'";
    }
  }
  return specs;
}

}  // namespace

std::string zsh_completion(const CommandSheet& program) {
  std::string commands;
  std::string cases;
  for (const CommandSheet& command : program.commands) {
    commands += "        '" + command.name + ":" + escaped(command.summary) + "'\n";
    cases += "        " + command.name + ")\n          _arguments -s" + option_specs(command, "            ");
    for (const OptionSheet& positional : command.positionals) {
      cases += " \\\n            ':" + escaped(positional.names.front()) + ":_files'";
    }
    cases += "\n          ;;\n";
  }
  const std::string function = "_" + program.name;
  return "#compdef " + program.name + "\n# Completion of " + program.name + " in zsh.\n" + function + R"(() {
  local curcontext=$curcontext state line
  typeset -A opt_args
  _arguments -C)" +
         option_specs(program, "    ") + R"( \
    '1:command:->command' \
    '*::argument:->argument'
  case $state in
    command)
      local -a commands=(
)" + commands +
         R"(      )
      _describe command commands
      ;;
    argument)
      case $words[1] in
)" + cases +
         R"(      esac
      ;;
  esac
}
if [[ $funcstack[1] == )" +
         function + " ]]; then\n  " + function + " \"$@\"\nelse\n  compdef " + function + " " + program.name + "\nfi\n";
}

}  // namespace ballast::tools
