#include "ballast/benchmark.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <filesystem>
#include <string>
#include <utility>

#include "python/bindings/bindings.h"
#include "python/bindings/call.h"

namespace ballast::python {
namespace {

using std::filesystem::path;

std::string benchmark_model(const path& model, const BenchmarkOptions& options, nb::object on_progress,
                            nb::object on_message) {
  return measured(options, std::move(on_progress), std::move(on_message),
                  [&](const BenchmarkOptions& telling, const Progress& progress) {
                    return benchmark_json(benchmark(model, telling, progress));
                  });
}

std::string benchmark_drafts(const path& model, const SpeculationBenchmarkOptions& options, nb::object on_progress,
                             nb::object on_message) {
  return measured(options, std::move(on_progress), std::move(on_message),
                  [&](const SpeculationBenchmarkOptions& telling, const Progress& progress) {
                    return benchmark_json(benchmark_speculation(model, telling, progress));
                  });
}

}  // namespace

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
  module.def("benchmark", &benchmark_model, "model"_a, "options"_a, "on_progress"_a.none(), "on_message"_a.none());
  module.def("benchmark_speculation", &benchmark_drafts, "model"_a, "options"_a, "on_progress"_a.none(),
             "on_message"_a.none());
}

}  // namespace ballast::python
