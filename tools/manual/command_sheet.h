// What the command line takes, read from the definitions that parse it: what man pages and completion are made of.
#ifndef BALLAST_TOOLS_MANUAL_COMMAND_SHEET_H_
#define BALLAST_TOOLS_MANUAL_COMMAND_SHEET_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace ballast::tools {

struct OptionSheet {
  std::vector<std::string> names;  ///< "-n", "--tokens"; a positional's own name
  std::string argument;            ///< "N"; empty of a flag
  std::string notes;               ///< "[128]", "REQUIRED", "Needs: --window": what --help has beside them
  std::string help;
  std::vector<std::string> values;  ///< that are known; empty where others are as good
  bool repeatable = false;

  /// Whether the argument names a file or a folder.
  bool takes_path() const;
};

struct CommandSheet {
  std::string name;  ///< "run"; of the program "ballast"
  std::string summary;
  std::string footer;  ///< paragraphs between empty lines: text, or a title that ends with ":" and indented lines
  std::vector<OptionSheet> positionals;
  std::vector<OptionSheet> options;
  std::vector<CommandSheet> commands;
};

CommandSheet sheet_of(CLI::App& app);

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_MANUAL_COMMAND_SHEET_H_
