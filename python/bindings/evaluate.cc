#include "ballast/evaluate.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <filesystem>
#include <string>

#include "ballast/choices.h"
#include "ballast/embed.h"
#include "ballast/inspect.h"
#include "python/bindings/bindings.h"
#include "python/bindings/call.h"

namespace ballast::python {
namespace {

using std::filesystem::path;

std::string inspect_model(const path& model) {
  return without_lock([&] { return model_summary_json(inspect(model)); });
}

std::string verify_model(const path& model, const path& expected, double tolerance, const ComputeOptions& compute) {
  return without_lock([&] { return verification_json(verify(model, expected, tolerance, compute)); });
}

}  // namespace

void bind_evaluate(nb::module_& module) {
  using nb::literals::operator""_a;
  nb::class_<EvaluateOptions>(module, "EvaluateOptions")
      .def(nb::init<>())
      .def_rw("text_file", &EvaluateOptions::text_file)
      .def_rw("reference", &EvaluateOptions::reference, nb::arg().none())
      .def_rw("context", &EvaluateOptions::context)
      .def_rw("chunks", &EvaluateOptions::chunks)
      .def_rw("stream", &EvaluateOptions::stream)
      .def_rw("reference_cache", &EvaluateOptions::reference_cache, nb::arg().none())
      .def_rw("per_position", &EvaluateOptions::per_position)
      .def_rw("worst", &EvaluateOptions::worst)
      .def_rw("cache", &EvaluateOptions::cache)
      .def_rw("model", &EvaluateOptions::model);
  nb::class_<ChoiceOptions>(module, "ChoiceOptions")
      .def(nb::init<>())
      .def_rw("questions_file", &ChoiceOptions::questions_file)
      .def_rw("reference", &ChoiceOptions::reference, nb::arg().none())
      .def_rw("delimiter", &ChoiceOptions::delimiter)
      .def_rw("cache", &ChoiceOptions::cache)
      .def_rw("model", &ChoiceOptions::model);
  nb::class_<VectorOptions>(module, "VectorOptions")
      .def(nb::init<>())
      .def_rw("text_file", &VectorOptions::text_file)
      .def_rw("reference", &VectorOptions::reference)
      .def_rw("embed", &VectorOptions::embed)
      .def_rw("model", &VectorOptions::model);
  module.def("inspect", &inspect_model, "model"_a);
  module.def("verify", &verify_model, "model"_a, "expected"_a, "tolerance"_a, "compute"_a);
  define_measurement(module, "evaluate", &evaluate, &evaluation_json);
  define_measurement(module, "evaluate_choices", &evaluate_choices, &choice_evaluation_json);
  define_measurement(module, "compare_vectors", &compare_vectors, &vector_comparison_json);
}

}  // namespace ballast::python
