#include "tools/flags/context_flag.h"

#include "tools/flags/option_checks.h"

namespace ballast::tools {

CLI::Option* add_context_flag(CLI::App& command, std::size_t& tokens) {
  return command
      .add_option("--context", tokens, "Tokens needed: a model with two contexts then uses the longer one if necessary")
      ->type_name("N")
      ->check(whole_number(1));
}

}  // namespace ballast::tools
