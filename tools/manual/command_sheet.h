// A description of the command line, read from the definitions that parse it, for man pages and completion.
#ifndef BALLAST_TOOLS_MANUAL_COMMAND_SHEET_H_
#define BALLAST_TOOLS_MANUAL_COMMAND_SHEET_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace ballast::tools {

struct OptionSheet {
  std::vector<std::string> names;  ///< "-n", "--tokens"; a positional's own name
  std::string argument;            ///< "N"; empty for a flag
  std::string notes;               ///< "[128]", "REQUIRED", "Needs: --window": the notes of --help
  std::string help;
  std::vector<std::string> values;  ///< known values; empty if any value is valid
  bool repeatable = false;

  /// Returns whether the argument is a file or a folder.
  bool takes_path() const;
};

struct CommandSheet {
  std::string name;  ///< "run"; "ballast" for the program
  std::string summary;
  std::string footer;  ///< paragraphs separated by empty lines: text, or a title that ends with ":" and indented lines
  std::vector<OptionSheet> positionals;
  std::vector<OptionSheet> options;
  std::vector<CommandSheet> commands;
};

CommandSheet sheet_of(CLI::App& app);

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_MANUAL_COMMAND_SHEET_H_
