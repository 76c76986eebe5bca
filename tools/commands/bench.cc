#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "ballast/benchmark.h"
#include "ballast/text.h"
#include "tools/commands/commands.h"
#include "tools/commands/generation_output.h"
#include "tools/commands/job.h"
#include "tools/flags/adapter_flag.h"
#include "tools/flags/cache_flags.h"
#include "tools/flags/draft_flags.h"
#include "tools/flags/model_flags.h"
#include "tools/flags/option_checks.h"
#include "tools/hub/hub_model.h"
#include "tools/terminal/console.h"
#include "tools/terminal/table.h"
#include "tools/terminal/units.h"

namespace ballast::tools {
namespace {

struct BenchFlags {
  std::filesystem::path model;
  BenchmarkOptions options;
  std::optional<std::filesystem::path> text;
  std::optional<std::filesystem::path> draft;
  std::size_t draft_tokens = SpeculationBenchmarkOptions{}.draft_tokens;
  std::optional<double> temperature;
  ModelFlags model_flags;
  bool json = false;
  JobFlags job;
};

std::string benchmark_page(const Benchmark& benchmark) {
  Table machine({{}, {}});
  machine.add_row({"processor", report::printable(benchmark.cpu)});
  machine.add_row({"instructions", benchmark.simd_target});
  machine.add_row({"threads", std::to_string(benchmark.threads)});
  machine.add_row({"memory reads", format_fixed(benchmark.read_gb_s, 1) + " GB/s"});
  machine.add_row({benchmark.peak_type + " peak", format_fixed(benchmark.peak_gops, 0) + " Gop/s"});
  const EngineChoice& most = benchmark.engines.back();
  machine.add_row({"floats", benchmark.bf16_products ? "BF16, onednn" : "F32, " + most.engine});
  machine.add_row({"load time", format_fixed(benchmark.load_seconds, 2) + " s"});
  machine.add_row({"peak memory", text::format_bytes(benchmark.peak_rss_bytes)});
  if (benchmark.experts) machine.add_row({"experts", expert_text(*benchmark.experts)});

  using enum Table::Align;
  Table results({{"test"},
                 {"tokens/s", kRight},
                 {"± deviation", kRight},
                 {"GB/s", kRight},
                 {"Gop/s", kRight},
                 {"of the limit", kRight}});
  for (const BenchmarkResult& result : benchmark.results) {
    results.add_row({result.test, format_fixed(result.tokens_per_second, 1), "± " + format_fixed(result.stddev, 1),
                     format_fixed(result.gb_s, 1), format_fixed(result.gop_s, 0),
                     format_percent(result.fraction_of_limit)});
  }
  return machine.text() + "\n" + results.text();
}

std::string speculation_page(const SpeculationBenchmark& benchmark) {
  Table page({{}, {}});
  page.add_row({"prompt", report::counted(benchmark.prompt_tokens, "token", "tokens")});
  page.add_row({"generated", report::counted(benchmark.generated_tokens, "token", "tokens")});
  page.add_row({"one by one", format_fixed(benchmark.plain_tokens_per_second, 1) + " tokens/s"});
  page.add_row({"with drafts", format_fixed(benchmark.tokens_per_second, 1) + " tokens/s, " +
                                   format_fixed(benchmark.speedup, 2) + " times as fast"});
  page.add_row({"drafted", drafted_text(benchmark.draft_tokens, benchmark.accepted_tokens)});
  return page.text();
}

int bench_speculation(const BenchFlags& flags) {
  if (flags.options.generate == 0) throw UsageError("-n 0 leaves nothing to measure");
  const SpeculationBenchmark measured = [&] {
    Job job(flags.job);
    return benchmark_speculation(
        flags.model,
        {.text_file = *flags.text,
         .draft = flags.draft,
         .draft_tokens = flags.draft_tokens,
         .temperature = flags.temperature.value_or(0),
         .generate = flags.options.generate,
         .repetitions = flags.options.repetitions,
         .cache = flags.options.cache,
         .model = model_options(flags.model_flags, compute_options(flags.job), flags.job.quiet)},
        job.progress());
  }();
  print(flags.json ? benchmark_json(measured) + "\n" : speculation_page(measured));
  return kExitDone;
}

int run_bench(const BenchFlags& flags) {
  if (flags.text) return bench_speculation(flags);
  if (flags.options.prompt == 0 && flags.options.generate == 0) {
    throw UsageError("-p 0 and -n 0 leave nothing to measure");
  }
  const Benchmark measured = [&] {
    Job job(flags.job);
    BenchmarkOptions options = flags.options;
    options.model = model_options(flags.model_flags, compute_options(flags.job), flags.job.quiet);
    return benchmark(flags.model, options, job.progress());
  }();
  print(flags.json ? benchmark_json(measured) + "\n" : benchmark_page(measured));
  return kExitDone;
}

}  // namespace

void add_bench(CLI::App& program, Action& action) {
  auto flags = std::make_shared<BenchFlags>();
  BenchmarkOptions& options = flags->options;
  CLI::App* command = program.add_subcommand("bench", "Measure speed and the limits of the machine");
  command->add_option("MODEL", flags->model, kModelHelp)->required()->type_name("");
  const auto add_count = [&](const char* name, std::size_t& count, std::size_t least, const char* help) {
    CLI::Option* option = command->add_option(name, count, help);
    return option->type_name("N")->capture_default_str()->check(whole_number(least));
  };
  CLI::Option* prompt = add_count("-p,--prompt", options.prompt, 0, "Tokens of the prompt test; 0: none");
  add_count("-n,--generate", options.generate, 0, "Tokens of the generation test; 0: none");
  CLI::Option* depth = add_count("-d,--depth", options.depth, 0, "Tokens already in the cache");
  CLI::Option* sequences =
      add_count("--sequences", options.sequences, 1, "Texts generated at once by the generation test");
  CLI::Option* share_depth =
      command->add_flag("--share-depth", options.share_depth, "All --sequences share the tokens of --depth");
  share_depth->needs(depth)->needs(sequences);
  add_count("-r,--repetitions", options.repetitions, 1, "Measured rounds, after one for warm-up");
  add_cache_flags(*command, options.cache);
  add_model_flags(*command, flags->model_flags);
  CLI::Option* adapter = command->add_option_function<std::vector<std::string>>(
      "--adapter",
      [&options](const std::vector<std::string>& texts) {
        for (const std::string& text : texts) options.adapters.push_back(parse_adapter(text));
      },
      "Run with an adapter (LoRA); of several, which are each given by this flag, the texts have them by turns");
  adapter->option_text("PATH[:SCALE]")->allow_extra_args(false)->excludes(share_depth);
  CLI::Option* text =
      command->add_option("--text", flags->text, "Only measure the gain of drafts when this text is continued");
  text->type_name("FILE")->excludes(prompt, depth, sequences, adapter);
  for (CLI::Option* flag : add_draft_flags(*command, flags->draft, flags->draft_tokens, false)) flag->needs(text);
  add_temperature_flag(*command, flags->temperature)->needs(text);
  command->add_flag("--json", flags->json, "Print one JSON object");
  add_processor_flags(*command, flags->job);
  add_bf16_flag(*command, flags->job);
  add_quiet_flag(*command, flags->job);
  command->footer("Example:\n  ballast bench smollm2-w8a8 -p 512 -n 128 -t 2");
  command->callback([flags, &action] { action = with_local_models(flags, run_bench, {&flags->draft}); });
}

}  // namespace ballast::tools
