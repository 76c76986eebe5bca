#include "tools/flags/expert_flag.h"

#include "ballast/text.h"
#include "tools/terminal/units.h"

namespace ballast::tools {

namespace {

constexpr const char* kFlag = "--expert-memory";

}  // namespace

CLI::Option* add_expert_flag(CLI::App& command, std::string& size) {
  return command
      .add_option(
          kFlag, size,
          "For the experts of a mixture; the others are read from its files when they are needed [all in memory]")
      ->type_name("SIZE");
}

ModelOptions model_options(const std::string& expert_memory) {
  if (expert_memory.empty()) return {};
  return {.expert_bytes = parse_bytes(kFlag, expert_memory)};
}

std::string expert_text(const ExpertFigures& figures) {
  return format_percent(figures.hit_rate()) + " of " + report::count(figures.used) + " in memory, " +
         text::format_bytes(figures.loaded_bytes) + " read; " + report::count(figures.in_memory) + " of " +
         report::count(figures.experts) + " experts in " + text::format_bytes(figures.bytes);
}

}  // namespace ballast::tools
