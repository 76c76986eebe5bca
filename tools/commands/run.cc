#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "ballast/generate.h"
#include "ballast/threads.h"
#include "files/text_file.h"
#include "text/reply/offered_tool.h"
#include "text/reply/reply_format.h"
#include "tools/commands/chat.h"
#include "tools/commands/commands.h"
#include "tools/commands/generation_output.h"
#include "tools/commands/job.h"
#include "tools/flags/adapter_flag.h"
#include "tools/flags/cache_flags.h"
#include "tools/flags/constraint_flags.h"
#include "tools/flags/context_flag.h"
#include "tools/flags/draft_flags.h"
#include "tools/flags/model_flags.h"
#include "tools/flags/option_checks.h"
#include "tools/hub/hub_model.h"
#include "tools/terminal/console.h"
#include "tools/terminal/line_input.h"

namespace ballast::tools {
namespace {

struct RunFlags {
  std::filesystem::path model;
  std::optional<std::string> prompt;
  GenerateOptions options;
  GenerationDefaults sampling;  ///< values set by flags
  bool generation_config = true;
  std::optional<AdapterFiles> adapter;
  std::optional<std::filesystem::path> draft;
  ModelFlags model_flags;
  std::size_t context = 0;
  bool chat = false;
  std::string system;
  std::filesystem::path chat_template;
  std::filesystem::path history;
  std::filesystem::path tools;
  std::optional<ShownThinking> thinking;
  ConstraintFlags constraint;
  JobFlags job;
};

/// Returns the text of a file with tools, after checking it.
std::string tools_text(const std::filesystem::path& file) {
  if (file.empty()) return {};
  std::string text = files::read_text_file(file);
  try {
    text::read_tools(text::parse_tools(text));
  } catch (const Error& error) {
    throw Error(file.string(), error.what());
  }
  return text;
}

std::string prompt_text(const std::string& prompt) {
  return prompt == "-" ? read_input() : prompt;
}

/// Returns the flags' values; in a chat, the model's values for flags that are not set.
GenerateOptions generate_options(const RunFlags& flags, const Model& model) {
  GenerateOptions options = flags.options;
  options.tools = tools_text(flags.tools);
  if (flags.adapter) options.adapter = model.load_adapter(*flags.adapter);
  const GenerationDefaults& own = model.generation_defaults();
  if (flags.chat && !own.empty()) {
    set_defaults(own, options);
    if (!flags.job.quiet) {
      print_message("sampling defaults of the model: " + generation_defaults_text(own) +
                    " (flags override them; --generation-config none ignores them)\n");
    }
  }
  set_defaults(flags.sampling, options);
  options.constraint = read_constraint(flags.constraint);
  return options;
}

int run_run(const RunFlags& flags) {
  if (!flags.prompt && !flags.chat) throw UsageError("-p PROMPT is missing (-p - reads it from standard input)");
  const bool of_chat = !flags.system.empty() || !flags.options.template_arguments.empty() ||
                       !flags.chat_template.empty() || !flags.history.empty() || !flags.tools.empty() ||
                       flags.thinking || flags.options.reply_format != text::kAutoReplyFormat;
  if (!flags.chat && of_chat) {
    throw UsageError(
        "--system, --history, --tools, --thinking, --reply-format, --chat-template and --template-args are for "
        "--chat");
  }
  use_processor(flags.job);
  ModelOptions options = model_options(flags.model_flags, compute_options(flags.job), flags.job.quiet);
  options.context = flags.context;
  options.chat_template = flags.chat_template;
  options.generation_config = flags.generation_config;
  options.draft_head = flags.options.draft_tokens > 0 && !flags.draft;
  ChatHistory history(flags.history, flags.system);
  const Model model(flags.model, options);
  Generator generator =
      flags.draft ? Generator(model, Model(*flags.draft, {.compute = options.compute})) : Generator(model);
  const auto tell_experts = [&] {
    const std::optional<ExpertFigures> experts = model.expert_figures();
    if (experts && !flags.job.quiet) print_message("experts: " + expert_text(*experts) + "\n");
  };
  if (flags.chat) {
    const ShownThinking unless_said = output_is_terminal() ? ShownThinking::kDim : ShownThinking::kPlain;
    Chat chat(generator, generate_options(flags, model), std::move(history), flags.thinking.value_or(unless_said),
              flags.job.quiet);
    if (flags.prompt) chat.answer(prompt_text(*flags.prompt));
    const int code = flags.prompt ? kExitDone : chat.converse();
    tell_experts();
    return code;
  }

  GenerationOutput output;
  const auto on_step = [&](const GenerateStep& step) {
    output.write(step.text, step.kind);
    return true;
  };
  const GenerateResult result = generator.generate(prompt_text(*flags.prompt), generate_options(flags, model), on_step);
  output.finish();
  if (!flags.job.quiet) print_message(timing_line(result) + "\n");
  tell_experts();
  return kExitDone;
}

void add_sampling_flags(CLI::App& command, RunFlags& flags) {
  GenerateOptions& options = flags.options;
  command.add_option("-n,--tokens", options.max_tokens, "Most tokens to generate")
      ->type_name("N")
      ->capture_default_str()
      ->check(whole_number(1));
  // The text in brackets is the default if neither a flag nor the model sets a value.
  GenerationDefaults& sampling = flags.sampling;
  add_temperature_flag(command, sampling.temperature);
  command.add_option("--top-k", sampling.top_k, "Choose among the K most likely tokens; 0: no limit")
      ->option_text("K [0]")
      ->check(whole_number(0));
  command.add_option("--top-p", sampling.top_p, "Choose among the most likely tokens that make up this probability")
      ->option_text("P [1]")
      ->check(real_number([](double value) { return value > 0 && value <= 1; }, "above 0 and at most 1"));
  command
      .add_option("--min-p", sampling.min_p, "Leave out tokens less likely than this fraction of the most likely one")
      ->option_text("P [0]")
      ->check(real_number([](double value) { return value >= 0 && value <= 1; }, "from 0 to 1"));
  command
      .add_option("--repetition-penalty", sampling.repetition_penalty,
                  "Above 1: tokens of the prompt and the answer become less likely")
      ->option_text("X [1]")
      ->check(real_number([](double value) { return value > 0; }, "above 0"));
  command
      .add_option("--repeat-last-n", options.penalty_window,
                  "Penalize only the last N tokens; 0: none [all of prompt and answer]")
      ->type_name("N")
      ->check(whole_number(0));
  command.add_option("--seed", options.seed, "Seed of the random choice")->type_name("N")->capture_default_str();
  command.add_option("--stop", options.stop, "End before this text; repeatable")
      ->option_text("TEXT")
      ->allow_extra_args(false)
      ->check([](const std::string& text) { return text.empty() ? "must not be empty" : ""; });
}

}  // namespace

void add_run(CLI::App& program, Action& action) {
  auto flags = std::make_shared<RunFlags>();
  CLI::App* command = program.add_subcommand("run", "Continue a text, or chat");
  command->add_option("MODEL", flags->model, kModelHelp)->required()->type_name("");
  command
      ->add_option("-p,--prompt", flags->prompt,
                   "Text to continue, or to read with an encoder; - reads it from standard input")
      ->type_name("PROMPT");
  add_sampling_flags(*command, *flags);
  add_constraint_flags(*command, flags->constraint);
  add_language_flags(*command, flags->options.source_language, flags->options.target_language);
  add_cache_flags(*command, flags->options.cache);
  add_context_flag(*command, flags->context);
  add_model_flags(*command, flags->model_flags);
  add_adapter_flag(*command, flags->adapter);
  add_draft_flags(*command, flags->draft, flags->options.draft_tokens, true);
  command->add_flag("--chat", flags->chat, "Answer the prompt as a chat message; without -p each line of input is one");
  command->add_option("--system", flags->system, "With --chat: the system message")->type_name("TEXT");
  command
      ->add_option("--history", flags->history,
                   "With --chat: the earlier conversation, a JSON list of messages, to which this one is added")
      ->type_name("FILE");
  command
      ->add_option("--tools", flags->tools,
                   "With --chat: tools that the model may call, a JSON list as in OpenAI's API; calls are printed as "
                   "lines of JSON after the answer")
      ->type_name("FILE");
  static const std::map<std::string, ShownThinking> thinking = {
      {"plain", ShownThinking::kPlain}, {"dim", ShownThinking::kDim}, {"hidden", ShownThinking::kHidden}};
  command
      ->add_option_function<std::string>(
          "--thinking", [flags](const std::string& name) { flags->thinking = thinking.at(name); },
          "With --chat: the model's thinking plain, between <think> and </think>, dim or hidden [dim on a terminal]")
      ->option_text("HOW")
      ->check(one_of({"plain", "dim", "hidden"}));
  add_chat_template_flag(*command, flags->chat_template);
  add_reply_format_flag(*command, flags->options.reply_format);
  add_generation_config_flag(*command, flags->generation_config, "--chat");
  command
      ->add_option("--template-args", flags->options.template_arguments,
                   "With --chat: arguments of the model's chat template, like '{\"enable_thinking\": false}'")
      ->type_name("JSON");
  add_processor_flags(*command, flags->job);
  add_bf16_flag(*command, flags->job);
  command->add_flag("-q,--quiet", flags->job.quiet, "No timing on standard error");
  command->footer(
      "Examples:\n"
      "  ballast run smollm2-w8a8 -p 'The ship took on' -n 64\n"
      "  ballast run smollm2-w8a8 --chat --temperature 0.7 --top-p 0.9");
  command->callback([flags, &action] { action = with_local_models(flags, run_run, {&flags->draft}); });
}

}  // namespace ballast::tools
