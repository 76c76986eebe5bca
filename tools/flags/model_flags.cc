#include "tools/flags/model_flags.h"

#include <map>

#include "ballast/text.h"
#include "text/reply/reply_format.h"
#include "tools/flags/option_checks.h"
#include "tools/terminal/console.h"
#include "tools/terminal/units.h"

namespace ballast::tools {

namespace {

constexpr const char* kFlag = "--expert-memory";

}  // namespace

void add_model_flags(CLI::App& command, ModelFlags& flags) {
  using enum ActivationType;
  static const std::map<std::string, ActivationType> types = {{"int8", kInt8}, {"int16", kInt16}, {"float", kFloat}};
  command
      .add_option_function<std::string>(
          "--activations", [&flags](const std::string& name) { flags.activations = types.at(name); },
          "Inputs of matrices in a GGUF or quantized by other programs: int8, int16, or float, which decodes them")
      ->option_text("TYPE [int8]")
      ->check(one_of({"int8", "int16", "float"}));
  command
      .add_option(kFlag, flags.expert_memory,
                  "Memory for a mixture's experts; the others are read from its files on demand [all in memory]")
      ->type_name("SIZE");
}

void add_generation_config_flag(CLI::App& command, bool& used, const std::string& whose) {
  command
      .add_option_function<std::string>(
          "--generation-config", [&used](const std::string& name) { used = name == "auto"; },
          "Values of the model's generation_config.json as the defaults of " + whose + ": auto, or none")
      ->option_text("HOW [auto]")
      ->check(one_of({"auto", "none"}));
}

void add_language_flags(CLI::App& command, std::string& source, std::string& target) {
  command
      .add_option("--source-language", source,
                  "Language of the source text, as the model names it: en, eng_Latn, en_XX [the model's default]")
      ->type_name("NAME");
  command.add_option("--target-language", target, "Language of the written text [the model's default]")
      ->type_name("NAME");
}

void add_chat_template_flag(CLI::App& command, std::filesystem::path& file) {
  command.add_option("--chat-template", file, "Jinja text of a chat template [the model's own]")->type_name("FILE");
}

void add_reply_format_flag(CLI::App& command, std::string& format) {
  command
      .add_option(
          "--reply-format", format,
          "How the model writes thinking and calls of tools in a chat: hermes, harmony, mistral, ...; none: all text "
          "is the answer")
      ->option_text("FORMAT [auto: as its chat template does]")
      ->check(one_of(text::reply_format_names()));
}

ModelOptions model_options(const ModelFlags& flags, const ComputeOptions& compute, bool quiet) {
  ModelOptions options;
  options.activations = flags.activations;
  options.compute = compute;
  if (!flags.expert_memory.empty()) options.expert_bytes = parse_bytes(kFlag, flags.expert_memory);
  if (!quiet) options.tell = [](const std::string& line) { print_message(line + "\n"); };
  return options;
}

std::string expert_text(const ExpertFigures& figures) {
  return format_percent(figures.hit_rate()) + " of " + report::count(figures.used) + " in memory, " +
         text::format_bytes(figures.loaded_bytes) + " read; " + report::count(figures.in_memory) + " of " +
         report::count(figures.experts) + " experts in " + text::format_bytes(figures.bytes);
}

}  // namespace ballast::tools
