#include "ballast/sweep.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ballast/report.h"
#include "python/bindings/bindings.h"
#include "python/bindings/call.h"

namespace ballast::python {
namespace {

using std::filesystem::path;

/// Writes the folder's table and page, as the program does.
std::string sweep_model(const path& model, const path& folder, const SweepOptions& options,
                        const std::optional<path>& peers_file, nb::object on_progress) {
  JobListener listener(std::move(on_progress), nb::none());
  return without_lock([&] {
    const std::vector<SweepPeer> peers = peers_file ? read_peers(*peers_file) : std::vector<SweepPeer>();
    const Sweep result = sweep(model, folder, options, listener.progress());
    save_sweep(result, folder, peers);
    return sweep_json(result);
  });
}

}  // namespace

void bind_sweep(nb::module_& module) {
  using nb::literals::operator""_a;
  nb::class_<SweepRecipe>(module, "SweepRecipe").def_ro("name", &SweepRecipe::name);
  module.attr("SIZED_SCHEME") = std::string(kSizedScheme);
  module.def(
      "sweep_recipe",
      [](std::string_view name, std::string_view preset) { return sweep_recipe(name, preset_by_name(preset)); },
      "name"_a, "preset"_a);
  module.def(
      "read_sweep_recipe",
      [](const path& file, std::string_view preset) { return read_sweep_recipe(file, preset_by_name(preset)); },
      "path"_a, "preset"_a);
  module.def(
      "default_sweep_recipes",
      [](std::uint64_t weights, std::string_view preset) {
        return default_sweep_recipes(weights, preset_by_name(preset));
      },
      "weights"_a, "preset"_a);
  nb::class_<SweepOptions>(module, "SweepOptions")
      .def(nb::init<>())
      .def_rw("recipes", &SweepOptions::recipes)
      .def_rw("text_file", &SweepOptions::text_file)
      .def_rw("context", &SweepOptions::context)
      .def_rw("chunks", &SweepOptions::chunks)
      .def_rw("statistics", &SweepOptions::statistics, nb::arg().none())
      .def_rw("calibration", &SweepOptions::calibration)
      .def_rw("compute", &SweepOptions::compute)
      .def_rw("benchmark", &SweepOptions::benchmark, nb::arg().none())
      .def_rw("keep_models", &SweepOptions::keep_models);
  module.def("sweep", &sweep_model, "model"_a, "folder"_a, "options"_a, "peers"_a.none(), "on_progress"_a.none());
}

}  // namespace ballast::python
