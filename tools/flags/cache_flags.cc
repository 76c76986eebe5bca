#include "tools/flags/cache_flags.h"

#include <map>
#include <string>

#include "tools/flags/option_checks.h"

namespace ballast::tools {

void add_cache_type_flag(CLI::App& command, CacheOptions::Type& type) {
  using Type = CacheOptions::Type;
  static const std::map<std::string, Type> types = {
      {"auto", Type::kAuto}, {"f32", Type::kF32}, {"f16", Type::kF16}, {"int8", Type::kInt8}};
  std::string shown;
  for (const auto& [name, named] : types) {
    if (named == type) shown = name;
  }
  command
      .add_option_function<std::string>(
          "--kv", [&type](const std::string& name) { type = types.at(name); },
          "Type of the key-value cache: f32, f16, int8, or auto: f32 for encoders, int8 for INT8 activations, else f16")
      ->option_text("TYPE [" + shown + "]")
      ->check(one_of({"auto", "f32", "f16", "int8"}));
}

void add_cache_flags(CLI::App& command, CacheOptions& options) {
  add_cache_type_flag(command, options.type);
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
