#include "tools/flags/adapter_flag.h"

#include <charconv>
#include <cmath>
#include <cstddef>
#include <filesystem>

#include "tools/flags/option_checks.h"

namespace ballast::tools {

AdapterFiles parse_adapter(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon + 1 == text.size() || std::filesystem::exists(text)) return {.path = text};
  double scale = 0;
  const char* end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data() + colon + 1, end, scale);
  if (problem != std::errc() || stop != end || !std::isfinite(scale)) return {.path = text};
  return {.path = text.substr(0, colon), .scale = scale};
}

NamedAdapter parse_named_adapter(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos || equals + 1 == text.size()) {
    throw UsageError("--adapter: '" + text + "' is not NAME=PATH or NAME=PATH:SCALE");
  }
  return {.name = text.substr(0, equals), .files = parse_adapter(text.substr(equals + 1))};
}

CLI::Option* add_adapter_flag(CLI::App& command, std::optional<AdapterFiles>& adapter) {
  return command
      .add_option_function<std::string>(
          "--adapter", [&adapter](const std::string& text) { adapter = parse_adapter(text); },
          "Run the model with an adapter (LoRA): a folder of PEFT or a GGUF, and a scale if it is not 1")
      ->option_text("PATH[:SCALE]");
}

}  // namespace ballast::tools
