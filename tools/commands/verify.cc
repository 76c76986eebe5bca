#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "ballast/error.h"
#include "ballast/evaluate.h"
#include "ballast/threads.h"
#include "tools/commands/commands.h"
#include "tools/commands/job.h"
#include "tools/flags/adapter_flag.h"
#include "tools/flags/option_checks.h"
#include "tools/hub/hub_model.h"
#include "tools/terminal/console.h"
#include "tools/terminal/table.h"
#include "tools/terminal/units.h"

namespace ballast::tools {
namespace {

struct VerifyFlags {
  std::filesystem::path model;
  std::filesystem::path expected;
  double tolerance = 1e-3;
  std::optional<AdapterFiles> adapter;
  bool json = false;
  JobFlags job;
};

std::string verification_sheet(const Verification& verification) {
  Table sheet({{}, {}});
  sheet.add_row({"largest error", format_figure(verification.max_abs_error)});
  sheet.add_row({"relative error", format_figure(verification.relative_error) + " of the expected " +
                                       (verification.of_logits ? "logits'" : "values'") + " spread"});
  if (verification.of_logits) {
    sheet.add_row({"KL divergence", format_figure(verification.kl_mean) + " nats per token"});
    sheet.add_row({"same top token", format_percent(verification.top1_agreement, 2)});
  }
  sheet.add_row({"verdict", verification.ok ? "ok" : "differs"});
  return sheet.text();
}

int run_verify(const VerifyFlags& flags) {
  use_processor(flags.job);
  const Verification verification =
      verify(flags.model, flags.expected, flags.tolerance, compute_options(flags.job), flags.adapter);
  print(flags.json ? verification_json(verification) + "\n" : verification_sheet(verification));
  if (verification.ok) return kExitDone;
  throw Error(flags.model.string(), "relative error " + format_figure(verification.relative_error) +
                                        " is above the tolerance " + format_figure(flags.tolerance) + " against " +
                                        flags.expected.string());
}

}  // namespace

void add_verify(CLI::App& program, Action& action) {
  auto flags = std::make_shared<VerifyFlags>();
  CLI::App* command = program.add_subcommand("verify", "Compare a model's logits with expected ones");
  command->add_option("MODEL", flags->model, kModelHelp)->required()->type_name("");
  command
      ->add_option("--expected", flags->expected,
                   "safetensors file with input_ids [batch, tokens] and logits [batch, tokens, vocab]; for a model "
                   "without a head last_hidden_state [batch, tokens, hidden]; for a classifier logits [batch, labels] "
                   "or [batch, tokens, labels]; attention_mask and token_type_ids are read if they are there")
      ->required()
      ->type_name("FILE");
  command->add_option("--tolerance", flags->tolerance, "Largest error allowed, in deviations of the expected logits")
      ->type_name("T")
      ->capture_default_str()
      ->check(real_number([](double value) { return value >= 0; }, "not below 0"));
  add_adapter_flag(*command, flags->adapter);
  command->add_flag("--json", flags->json, "Print one JSON object");
  add_processor_flags(*command, flags->job);
  command->footer(
      "Exits with 1 when the error is above the tolerance.\n\n"
      "Example:\n  ballast verify SmolLM2-135M --expected logits.safetensors --tolerance 1e-4");
  command->callback([flags, &action] { action = with_local_models(flags, run_verify); });
}

}  // namespace ballast::tools
