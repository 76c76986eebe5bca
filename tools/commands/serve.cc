#include "ballast/serve.h"

#ifdef __linux__
#include <malloc.h>
#endif

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/commands/commands.h"
#include "tools/commands/job.h"
#include "tools/flags/adapter_flag.h"
#include "tools/flags/cache_flags.h"
#include "tools/flags/context_flag.h"
#include "tools/flags/draft_flags.h"
#include "tools/flags/model_flags.h"
#include "tools/flags/option_checks.h"
#include "tools/flags/served_models.h"
#include "tools/hub/hub_model.h"
#include "tools/terminal/console.h"
#include "tools/terminal/interrupt.h"

namespace ballast::tools {
namespace {

struct ServeFlags {
  ServedModelFlags models;
  ServeOptions options;
  ServedModel model;  ///< with the flags of all models, or of an only one
  std::optional<std::filesystem::path> draft;
  std::vector<std::string> adapters;  ///< NAME=PATH[:SCALE]
  std::string models_memory;
  std::string cache_memory;
  std::string cache_disk;
  std::string request_memory = "512MB";
  ModelFlags model_flags;
  std::filesystem::path chat_template;
  bool generation_config = true;
  std::size_t context = 0;
  double target_itl = 150;  // milliseconds
  JobFlags job;
};

/// Returns freed memory to the system. By default glibc raises a threshold with each large block that is freed, and
/// then allocates large blocks among small ones in a heap for each thread: a busy server grew by a sixth within half an
/// hour.
void keep_memory_whole() {
#ifdef __GLIBC__
  constexpr int kLargeBlock = 128 * 1024;
  constexpr int kHeaps = 2;
  ::mallopt(M_MMAP_THRESHOLD, kLargeBlock);
  ::mallopt(M_ARENA_MAX, kHeaps);
#endif
}

/// Returns the models with the options of the flags. Those that fit one model alone are refused for several.
std::vector<ServedModel> served_models(const ServeFlags& flags) {
  ServedModel defaults;
  defaults.reply_format = flags.model.reply_format;
  defaults.draft_tokens = flags.model.draft_tokens;
  defaults.options = model_options(flags.model_flags, compute_options(flags.job), flags.job.quiet);
  defaults.options.context = flags.context;
  defaults.options.generation_config = flags.generation_config;
  std::vector<ServedModel> models = read_served_models(flags.models, defaults);
  const auto set = [&](const char* flag, const char* option, const auto& value, auto& of_model) {
    if (value.empty()) return;
    if (models.size() > 1) {
      throw UsageError(std::string(flag) + " is of one model, and there are " + std::to_string(models.size()) +
                       ": give it to each as " + option);
    }
    of_model = value;
  };
  ServedModel& only = models.front();
  set("--name", "NAME=MODEL", flags.model.name, only.name);
  set("--chat-template", "NAME=MODEL,chat-template=FILE", flags.chat_template, only.options.chat_template);
  set("--stats", "NAME=MODEL,stats=FILE", flags.model.statistics, only.statistics);
  set("--draft", "NAME=MODEL,draft=MODEL", flags.draft.value_or(""), only.draft);
  return models;
}

/// Replaces names on the Hub by paths. They stay the models' names in requests.
void make_local(ServedModel& model) {
  const std::filesystem::path path = local_model(model.path);
  if (path != model.path && model.name.empty()) model.name = model.path.string();
  model.path = path;
  model.draft = local_model(model.draft);
}

int run_serve(ServeFlags& flags) {
  if (flags.options.certificate.empty() != flags.options.private_key.empty()) {
    throw UsageError("--tls-certificate and --tls-key need each other");
  }
  const std::string memory_flag = "--cache-memory";
  if (!flags.cache_memory.empty()) flags.options.cache_bytes = parse_bytes(memory_flag, flags.cache_memory);
  if (!flags.cache_disk.empty()) {
    if (flags.options.cache_directory.empty()) throw UsageError("--cache-disk needs --cache-dir");
    flags.options.cache_disk_bytes = parse_bytes("--cache-disk", flags.cache_disk);
  }
  flags.options.request_bytes = parse_bytes("--request-memory", flags.request_memory);
  if (!flags.models_memory.empty()) {
    flags.options.models_bytes = parse_bytes("--models-memory", flags.models_memory);
  }
  std::vector<ServedModel> models = served_models(flags);
  for (ServedModel& model : models) make_local(model);
  for (const std::string& adapter : flags.adapters) flags.options.adapters.push_back(parse_named_adapter(adapter));
  flags.options.target_itl = flags.target_itl / 1000;
  flags.options.threads = flags.job.threads;
  flags.options.log = [](std::string_view line) {
    constexpr int kPatience = 200;  // milliseconds
    return print_message_within(std::string(line) + "\n", kPatience);
  };
  flags.options.stop_requested = [] { return pending_interrupt() != 0; };
  use_instructions(flags.job);
  keep_memory_whole();
  const InterruptGuard guard;
  run_server(models, flags.options);
  return kExitDone;
}

void add_access_flags(CLI::App& command, ServeOptions& options) {
  command.add_option("--host", options.host, "Address to listen on")->type_name("ADDRESS")->capture_default_str();
  command.add_option("--port", options.port, "Port; 0: any that is free")->type_name("N")->capture_default_str();
  command.add_option("--api-keys", options.api_keys, "Keys of allowed clients: a file with lines 'NAME KEY'")
      ->type_name("FILE");
  command.add_flag("--open-to-all", options.open_to_all, "Allow a network address without keys");
  command
      .add_option("--allow-host", options.allowed_hosts, "A further name that requests may have as Host; repeatable")
      ->type_name("NAME")
      ->allow_extra_args(false);
  command.add_option("--tls-certificate", options.certificate, "Chain in PEM: HTTPS")->type_name("FILE");
  command.add_option("--tls-key", options.private_key, "Its key in PEM")->type_name("FILE");
}

void add_limit_flags(CLI::App& command, ServeFlags& flags) {
  ServeOptions& options = flags.options;
  command
      .add_option(
          "--cache-memory", flags.cache_memory,
          "Memory for the cache of all texts of a model [half of the free memory; with several models an eighth "
          "of theirs]")
      ->type_name("SIZE");
  command
      .add_option("--models-memory", flags.models_memory,
                  "Memory for all loaded models and their caches, where there are several [80 % of the free memory]")
      ->type_name("SIZE");
  command
      .add_option("--cache-dir", options.cache_directory,
                  "Directory for beginnings of texts, which are then not read again after a restart")
      ->type_name("DIR");
  command
      .add_option("--cache-disk", flags.cache_disk,
                  "Most bytes of --cache-dir; files that were not used for longest are removed [20GB]")
      ->type_name("SIZE");
  add_context_flag(command, flags.context);
  add_model_flags(command, flags.model_flags);
  command
      .add_option("--max-running", options.most_running, "Texts that are generated at once; a request may have several")
      ->type_name("N")
      ->capture_default_str()
      ->check(whole_number(1, 1024));
  command.add_option("--max-waiting", options.most_waiting, "Requests that may wait; more are refused (429)")
      ->type_name("N")
      ->capture_default_str()
      ->check(whole_number(1));
  command
      .add_option("--request-memory", flags.request_memory,
                  "Memory of all requests together: bodies, prompts, answers until they are sent; one may use a "
                  "quarter, and 64 KB each are not counted")
      ->type_name("SIZE")
      ->capture_default_str();
  command.add_option("--max-tokenize", options.most_tokenized, "Most tokens of a text for /tokenize and /detokenize")
      ->type_name("N")
      ->capture_default_str()
      ->check(whole_number(1, std::size_t{1} << 24));
  command
      .add_option("--max-wait", options.longest_wait, "Refuse requests that would wait longer, by an estimate; 0: none")
      ->type_name("SECONDS")
      ->capture_default_str()
      ->check(real_number([](double value) { return value >= 0; }, "0 or more"));
  command.add_option("--target-itl", flags.target_itl, "Milliseconds between two tokens while other prompts are read")
      ->type_name("MS")
      ->capture_default_str()
      ->check(real_number([](double value) { return value > 0; }, "above 0"));
}

}  // namespace

void add_serve(CLI::App& program, Action& action) {
  auto flags = std::make_shared<ServeFlags>();
  CLI::App* command = program.add_subcommand("serve", "Answer requests of OpenAI's API over HTTP");
  add_served_models(*command, flags->models);
  add_access_flags(*command, flags->options);
  command->add_option("--name", flags->model.name, "The model's name in requests [its path's last part]")
      ->type_name("NAME");
  command->add_flag("--any-name", flags->options.any_model_name, "Answer requests that name another model, too");
  command
      ->add_option("--adapter", flags->adapters,
                   "An adapter (LoRA) of an only model that requests choose by its name: a folder of PEFT or a GGUF, "
                   "and a scale if it is not 1; repeatable")
      ->option_text("NAME=PATH[:SCALE]")
      ->allow_extra_args(false);
  command->add_flag("--runtime-adapters", flags->options.runtime_adapters,
                    "Let clients load adapters, from any file that the server can read, and unload them");
  add_chat_template_flag(*command, flags->chat_template);
  add_reply_format_flag(*command, flags->model.reply_format);
  add_generation_config_flag(*command, flags->generation_config, "requests");
  add_draft_flags(*command, flags->draft, flags->model.draft_tokens, true);
  add_cache_type_flag(*command, flags->options.cache_type);
  add_limit_flags(*command, *flags);
  command->add_option("--stats", flags->model.statistics, "Statistics of calibrate, to be shown on the page")
      ->type_name("FILE");
  command->add_flag("--log-prompts", flags->options.log_prompts, "Write requests' bodies into the log, too");
  add_processor_flags(*command, flags->job);
  add_bf16_flag(*command, flags->job);
  command->footer(
      "Further limits for clients:\n"
      "  the head of a request       8 KB, within 10 s\n"
      "  its body                    8 MB, at 16 KB a second or faster; 256 requests may wait to be read\n"
      "  /v1/completions             2,048 texts of 128 choices, 20 log-probabilities of each token\n"
      "  fields                      16 stops of 1,024 bytes, 1,024 ids, cache_salt of 1,024 bytes\n"
      "  between requests            60 s, also until a client has received what was sent\n"
      "  a stream that is not read   256 KB for 2 s, or 16 MB\n"
      "  connections                 1,024, from one address 256; a TLS handshake within 10 s\n"
      "  a text's expressions        10 s of processor time to split it\n"
      "  the log                     8,192 lines or 16 MB may wait to be written; more are dropped and counted\n"
      "Examples:\n"
      "  ballast serve smollm2-w8a8\n"
      "  ballast serve small=smollm2-w8a8 large=qwen-w4a8,draft=smollm2-w8a8,alias=gpt-4\n"
      "  ballast serve smollm2-w8a8 --adapter sql=adapters/sql --adapter poems=adapters/poems.gguf:0.5\n"
      "  ballast serve smollm2-w8a8 --host 0.0.0.0 --api-keys keys.txt --tls-certificate chain.pem --tls-key key.pem");
  command->callback([flags, &action] { action = [flags] { return run_serve(*flags); }; });
}

}  // namespace ballast::tools
