#include <filesystem>
#include <memory>
#include <string>

#include "ballast/benchmark.h"
#include "ballast/text.h"
#include "tools/commands/commands.h"
#include "tools/commands/job.h"
#include "tools/flags/cache_flags.h"
#include "tools/flags/option_checks.h"
#include "tools/terminal/console.h"
#include "tools/terminal/table.h"
#include "tools/terminal/units.h"

namespace ballast::tools {
namespace {

struct BenchFlags {
  std::filesystem::path model;
  BenchmarkOptions options;
  bool json = false;
  JobFlags job;
};

std::string benchmark_page(const Benchmark& benchmark) {
  Table machine({{}, {}});
  machine.add_row({"processor", report::printable(benchmark.cpu)});
  machine.add_row({"instructions", benchmark.simd_target});
  machine.add_row({"threads", std::to_string(benchmark.threads)});
  machine.add_row({"memory reads", format_fixed(benchmark.read_gb_s, 1) + " GB/s"});
  machine.add_row({"INT8 peak", format_fixed(benchmark.int8_gops, 0) + " Gop/s"});
  const EngineChoice& most = benchmark.engines.back();
  machine.add_row({"floats", benchmark.bf16_products ? "BF16, onednn" : "F32, " + most.engine});
  machine.add_row({"load time", format_fixed(benchmark.load_seconds, 2) + " s"});
  machine.add_row({"peak memory", text::format_bytes(benchmark.peak_rss_bytes)});

  using enum Table::Align;
  Table results({{"test"}, {"tokens/s", kRight}, {"± deviation", kRight}, {"of the limit", kRight}});
  for (const BenchmarkResult& result : benchmark.results) {
    results.add_row({result.test, format_fixed(result.tokens_per_second, 1), "± " + format_fixed(result.stddev, 1),
                     format_percent(result.fraction_of_limit)});
  }
  return machine.text() + "\n" + results.text();
}

int run_bench(const BenchFlags& flags) {
  if (flags.options.prompt == 0 && flags.options.generate == 0) {
    throw UsageError("-p 0 and -n 0 leave nothing to measure");
  }
  const Benchmark measured = [&] {
    Job job(flags.job);
    return benchmark(flags.model, flags.options, job.progress());
  }();
  print(flags.json ? benchmark_json(measured) + "\n" : benchmark_page(measured));
  return kExitDone;
}

}  // namespace

void add_bench(CLI::App& program, Action& action) {
  auto flags = std::make_shared<BenchFlags>();
  BenchmarkOptions& options = flags->options;
  CLI::App* command = program.add_subcommand("bench", "Measure speed beside the limits of the machine");
  command->add_option("MODEL", flags->model, kModelHelp)->required()->type_name("");
  const auto add_count = [&](const char* name, std::size_t& count, std::size_t least, const char* help) {
    command->add_option(name, count, help)->type_name("N")->capture_default_str()->check(whole_number(least));
  };
  add_count("-p,--prompt", options.prompt, 0, "Tokens of the prompt test; 0: none");
  add_count("-n,--generate", options.generate, 0, "Tokens of the generation test; 0: none");
  add_count("-d,--depth", options.depth, 0, "Tokens already in the cache");
  add_count("-r,--repetitions", options.repetitions, 1, "Rounds that count; one more is run first");
  add_cache_flags(*command, options.cache);
  command->add_flag("--json", flags->json, "Print one JSON object");
  add_processor_flags(*command, flags->job);
  add_bf16_flag(*command, flags->job);
  add_quiet_flag(*command, flags->job);
  command->footer("Example:\n  ballast bench smollm2-w8a8 -p 512 -n 128 -t 2");
  command->callback([flags, &action] { action = [flags] { return run_bench(*flags); }; });
}

}  // namespace ballast::tools
