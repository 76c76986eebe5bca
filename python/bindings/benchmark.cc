#include "ballast/benchmark.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <filesystem>

#include "python/bindings/bindings.h"
#include "python/bindings/call.h"

namespace ballast::python {

void bind_benchmark(nb::module_& module) {
  using nb::literals::operator""_a;
  nb::class_<BenchmarkOptions>(module, "BenchmarkOptions")
      .def(nb::init<>())
      .def_rw("prompt", &BenchmarkOptions::prompt)
      .def_rw("generate", &BenchmarkOptions::generate)
      .def_rw("depth", &BenchmarkOptions::depth)
      .def_rw("sequences", &BenchmarkOptions::sequences)
      .def_rw("share_depth", &BenchmarkOptions::share_depth)
      .def_rw("repetitions", &BenchmarkOptions::repetitions)
      .def_rw("cache", &BenchmarkOptions::cache)
      .def_rw("model", &BenchmarkOptions::model);
  nb::class_<SpeculationBenchmarkOptions>(module, "SpeculationBenchmarkOptions")
      .def(nb::init<>())
      .def_rw("text_file", &SpeculationBenchmarkOptions::text_file)
      .def_rw("draft", &SpeculationBenchmarkOptions::draft, nb::arg().none())
      .def_rw("draft_tokens", &SpeculationBenchmarkOptions::draft_tokens)
      .def_rw("temperature", &SpeculationBenchmarkOptions::temperature)
      .def_rw("generate", &SpeculationBenchmarkOptions::generate)
      .def_rw("repetitions", &SpeculationBenchmarkOptions::repetitions)
      .def_rw("cache", &SpeculationBenchmarkOptions::cache)
      .def_rw("model", &SpeculationBenchmarkOptions::model);
  define_measurement<BenchmarkOptions, Benchmark>(module, "benchmark", &benchmark, &benchmark_json);
  define_measurement<SpeculationBenchmarkOptions, SpeculationBenchmark>(module, "benchmark_speculation",
                                                                        &benchmark_speculation, &benchmark_json);
}

}  // namespace ballast::python
