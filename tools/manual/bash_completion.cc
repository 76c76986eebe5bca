#include <string>
#include <vector>

#include "tools/manual/completion.h"

namespace ballast::tools {
namespace {

std::string joined(const std::vector<std::string>& words, const char* between) {
  return CLI::detail::join(words, between);
}

std::string option_words(const CommandSheet& sheet) {
  std::vector<std::string> words;
  for (const OptionSheet& option : sheet.options) words.insert(words.end(), option.names.begin(), option.names.end());
  return joined(words, " ");
}

std::vector<std::string> command_names(const CommandSheet& program) {
  std::vector<std::string> names;
  for (const CommandSheet& command : program.commands) names.push_back(command.name);
  return names;
}

/// Returns the completions of each option's argument, if it has known values or is not a path.
std::string value_cases(const CommandSheet& sheet, const std::string& command) {
  std::string cases;
  for (const OptionSheet& option : sheet.options) {
    if (option.argument.empty() || option.takes_path()) continue;
    std::vector<std::string> patterns;
    for (const std::string& name : option.names) patterns.push_back(command + ":" + name);
    cases += "    " + joined(patterns, "|") + ") words='" + joined(option.values, " ") + "' ;;\n";
  }
  return cases;
}

}  // namespace

// Without an offer, readline completes file names.
std::string bash_completion(const CommandSheet& program) {
  const std::vector<std::string> names = command_names(program);
  std::string values = value_cases(program, "");
  std::string options = "    '') words='" + joined(names, " ") + " " + option_words(program) + "' ;;\n";
  std::string paths;
  const auto add_paths = [&](const CommandSheet& sheet) {
    for (const OptionSheet& option : sheet.options) {
      if (!option.takes_path() || option.argument.empty()) continue;
      for (const std::string& name : option.names) paths += (paths.empty() ? "" : "|") + sheet.name + ":" + name;
    }
  };
  for (const CommandSheet& command : program.commands) {
    values += value_cases(command, command.name);
    options += "    " + command.name + ") words='" + option_words(command) + "' ;;\n";
    add_paths(command);
  }
  return "# Completion of " + program.name + " in bash.\n_" + program.name + R"(() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command='' word words=''
  COMPREPLY=()
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case $word in
      )" +
         joined(names, "|") +
         R"()
        command=$word
        break
        ;;
    esac
  done
  case $command:$previous in
)" + values +
         "    " + paths + R"() return ;;
    *)
      if [[ -n $command && $current != -* ]]; then return; fi
      case $command in
)" + options +
         R"(      esac
      ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
complete -o bashdefault -o default -F _)" +
         program.name + " " + program.name + "\n";
}

}  // namespace ballast::tools
