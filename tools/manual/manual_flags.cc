#include "tools/manual/manual_flags.h"

#include <algorithm>
#include <vector>

#include "ballast/processor.h"
#include "ballast/version.h"
#include "tools/flags/option_checks.h"
#include "tools/manual/command_sheet.h"
#include "tools/manual/completion.h"
#include "tools/manual/man_page.h"
#include "tools/terminal/table.h"

namespace ballast::tools {

void add_manual_flags(CLI::App& program, ManualFlags& flags) {
  std::vector<std::string> pages = {program.get_name()};
  for (const CLI::App* command : program.get_subcommands([](const CLI::App*) { return true; })) {
    pages.push_back(command->get_name());
  }
  program
      .add_option("--man", flags.page,
                  "Print a man page, of " + program.get_name() + " or of a command, and exit: for man -l -")
      ->type_name("PAGE")
      ->check(one_of(pages));
  program.add_option("--completion", flags.shell, "Print a completion script for bash, zsh or fish, and exit")
      ->type_name("SHELL")
      ->check(one_of({"bash", "zsh", "fish"}));
}

std::optional<std::string> manual_text(CLI::App& program, const ManualFlags& flags) {
  if (flags.page.empty() && flags.shell.empty()) return std::nullopt;
  const CommandSheet sheet = sheet_of(program);
  if (flags.shell == "bash") return bash_completion(sheet);
  if (flags.shell == "zsh") return zsh_completion(sheet);
  if (flags.shell == "fish") return fish_completion(sheet);
  const auto command = std::ranges::find(sheet.commands, flags.page, &CommandSheet::name);
  return man_page(sheet, command == sheet.commands.end() ? sheet : *command, version());
}

std::string version_text() {
  const Features found = features();
  Table table({{}, {}});
  table.add_row({"instructions", simd_target() + "; built for " + CLI::detail::join(found.simd_targets, ", ")});
  table.add_row({"oneDNN", found.onednn ? "yes" : "no"});
  table.add_row({"MPI", found.mpi ? "yes" : "no"});
  table.add_row({"serve", "HTTP and HTTPS"});
  return "ballast " + std::string(version()) + "\n\n" + table.text();
}

}  // namespace ballast::tools
