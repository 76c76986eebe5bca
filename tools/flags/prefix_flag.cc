#include "tools/flags/prefix_flag.h"

#include "ballast/error.h"
#include "tools/flags/option_checks.h"

namespace ballast::tools {

void add_prefix_flag(CLI::App& command, std::optional<std::string>& prefix) {
  command
      .add_option("--prefix", prefix,
                  "Tokens before every sequence, kept in the cache: the massive ones (auto), or ids like 198,0")
      ->option_text("none|auto|ID,... [none]");
}

CachedPrefix prefix_from_flag(const std::string& text) {
  try {
    return parse_prefix(text, "--prefix");
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
}

}  // namespace ballast::tools
