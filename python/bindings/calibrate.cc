#include "ballast/calibrate.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <utility>

#include "python/bindings/bindings.h"
#include "python/bindings/call.h"

namespace ballast::python {
namespace {

Statistics calibrate_model(const std::filesystem::path& model, CalibrateOptions options, nb::object on_progress,
                           nb::object on_message) {
  JobListener listener(std::move(on_progress), std::move(on_message));
  options.on_message = listener.message();
  return without_lock([&] { return calibrate(model, options, listener.progress()); });
}

}  // namespace

void bind_calibrate(nb::module_& module) {
  using nb::literals::operator""_a;
  nb::class_<CalibrateOptions>(module, "CalibrateOptions")
      .def(nb::init<>())
      .def_rw("text_files", &CalibrateOptions::text_files)
      .def_rw("samples", &CalibrateOptions::samples)
      .def_rw("length", &CalibrateOptions::length)
      .def_rw("seed", &CalibrateOptions::seed)
      .def_rw("prefix", &CalibrateOptions::prefix)
      .def_rw("compute", &CalibrateOptions::compute)
      .def_rw("state_folder", &CalibrateOptions::state_folder)
      .def_rw("model_identity", &CalibrateOptions::model_identity);
  module.def("calibrate", &calibrate_model, "model"_a, "options"_a, "on_progress"_a.none(), "on_message"_a.none());
  module.def("state_folder_beside", &state_folder_beside, "output"_a);
  module.def("discard_calibration_state", &discard_calibration_state, "options"_a);
}

}  // namespace ballast::python
