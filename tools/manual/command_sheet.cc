#include "tools/manual/command_sheet.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "tools/flags/option_checks.h"

namespace ballast::tools {
namespace {

/// Words that mean a path in --help, with any ending: "FILE.json".
constexpr std::array<std::string_view, 5> kPaths = {"FILE", "MODEL", "OUT", "DIR", "STATS"};

OptionSheet option_sheet(CLI::Option& option) {
  OptionSheet sheet;
  sheet.help = option.get_description();
  sheet.values = known_values(option);
  if (option.get_positional()) {
    sheet.names.push_back(option.get_single_name());
  } else {
    for (const std::string& name : option.get_snames()) sheet.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) sheet.names.push_back("--" + name);
  }
  // Uses the formatter of --help, so that both have the same text.
  std::string text = CLI::detail::trim_copy(CLI::Formatter().make_option_opts(&option));
  if (option.get_items_expected_max() > 0 && !option.get_positional()) {
    const std::size_t end = text.find(' ');
    sheet.argument = text.substr(0, end);
    text = end == std::string::npos ? "" : CLI::detail::trim_copy(text.substr(end));
  }
  sheet.notes = text;
  sheet.repeatable = option.get_expected_max() > 1;
  return sheet;
}

}  // namespace

bool OptionSheet::takes_path() const {
  const std::string_view word = argument.empty() ? std::string_view(names.front()) : std::string_view(argument);
  return std::ranges::find(kPaths, word.substr(0, word.find('.'))) != kPaths.end();
}

CommandSheet sheet_of(CLI::App& app) {
  CommandSheet sheet;
  sheet.name = app.get_name();
  sheet.summary = app.get_description();
  sheet.footer = app.get_footer();
  for (CLI::Option* option : app.get_options()) {
    (option->get_positional() ? sheet.positionals : sheet.options).push_back(option_sheet(*option));
  }
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    sheet.commands.push_back(sheet_of(*command));
  }
  return sheet;
}

}  // namespace ballast::tools
