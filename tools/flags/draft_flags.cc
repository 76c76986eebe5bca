#include "tools/flags/draft_flags.h"

#include <string>

#include "tools/flags/option_checks.h"

namespace ballast::tools {

CLI::Option* add_temperature_flag(CLI::App& command, std::optional<double>& temperature) {
  return command.add_option("--temperature", temperature, "0: always the most likely token")
      ->type_name("T")
      ->default_str("0")
      ->check(real_number([](double value) { return value >= 0; }, "not below 0"));
}

std::array<CLI::Option*, 2> add_draft_flags(CLI::App& command, std::optional<std::filesystem::path>& model,
                                            std::size_t& tokens, bool may_be_none) {
  CLI::Option* model_flag =
      command.add_option("--draft", model, "A smaller model with the same tokenizer, which drafts tokens for this one")
          ->type_name("MODEL");
  const std::string help =
      "Most tokens drafted at once, by --draft, by the model's own head for multi-token prediction, or from what the "
      "text repeats, where that pays; the output stays the same";
  CLI::Option* tokens_flag = command.add_option("--draft-tokens", tokens, may_be_none ? help + "; 0: none" : help)
                                 ->type_name("N")
                                 ->capture_default_str()
                                 ->check(whole_number(may_be_none ? 0 : 1));
  return {model_flag, tokens_flag};
}

}  // namespace ballast::tools
