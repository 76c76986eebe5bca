#include "tools/flags/cache_flags.h"

#include <map>
#include <string>

#include "tools/flags/option_checks.h"

namespace ballast::tools {

void add_cache_flags(CLI::App& command, CacheOptions& options) {
  using Type = CacheOptions::Type;
  static const std::map<std::string, Type> types = {
      {"auto", Type::kAuto}, {"f32", Type::kF32}, {"f16", Type::kF16}, {"int8", Type::kInt8}};
  std::string shown;
  for (const auto& [name, type] : types) {
    if (type == options.type) shown = name;
  }
  command
      .add_option_function<std::string>(
          "--kv", [&options](const std::string& name) { options.type = types.at(name); },
          "Type of the key-value cache: f32, f16, int8, or auto: int8 for INT8 activations, else f16")
      ->option_text("TYPE [" + shown + "]")
      ->check(CLI::IsMember({"auto", "f32", "f16", "int8"}).description(""));
  CLI::Option* window =
      command.add_option("--window", options.window, "Rolling cache: keep the last W tokens, in constant memory")
          ->type_name("W")
          ->check(whole_number(1));
  command.add_option("--sinks", options.sinks, "and the first S tokens, which draw attention (StreamingLLM: 4)")
      ->type_name("S")
      ->check(whole_number(0))
      ->needs(window);
}

}  // namespace ballast::tools
