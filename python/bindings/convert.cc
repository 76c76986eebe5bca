#include "ballast/convert.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "python/bindings/bindings.h"
#include "python/bindings/call.h"

namespace ballast::python {
namespace {

using std::filesystem::path;

std::string convert_model(const path& model, const path& output, ConvertOptions options, nb::object on_progress,
                          nb::object on_message) {
  JobListener listener(std::move(on_progress), std::move(on_message));
  options.calibration.on_message = listener.message();
  return without_lock([&] { return convert_report_json(convert(model, output, options, listener.progress())); });
}

std::string export_written(const path& model, const path& output, std::string_view format, bool replace,
                           nb::object on_progress) {
  JobListener listener(std::move(on_progress), nb::none());
  return without_lock([&] {
    const ExportOptions options{.output_format = parse_output_format(format), .replace = replace};
    return convert_report_json(export_model(model, output, options, listener.progress()));
  });
}

}  // namespace

void bind_convert(nb::module_& module) {
  using nb::literals::operator""_a;
  nb::class_<ConvertOptions>(module, "ConvertOptions")
      .def(nb::init<>())
      .def_rw("recipe", &ConvertOptions::recipe)
      .def_rw("statistics", &ConvertOptions::statistics, nb::arg().none())
      .def_rw("calibration", &ConvertOptions::calibration)
      .def_rw("probe_samples", &ConvertOptions::probe_samples)
      .def_rw("deterministic", &ConvertOptions::deterministic)
      .def_rw("replace", &ConvertOptions::replace)
      .def(
          "use_output_format",
          [](ConvertOptions& options, std::string_view name) { options.output_format = parse_output_format(name); },
          "name"_a)
      .def(
          "apply_preset",
          [](ConvertOptions& options, std::string_view name, bool with_rounding) {
            const Recipe::Rounding rounding = options.recipe.rounding;
            apply_preset(preset_by_name(name), options);
            if (!with_rounding) options.recipe.rounding = rounding;
          },
          "name"_a, "with_rounding"_a);
  module.def("output_format_names", &output_format_names);
  module.def("preset_names", [] {
    std::vector<std::string> names;
    for (const Preset& preset : presets()) names.push_back(preset.name);
    return names;
  });
  module.def("convert", &convert_model, "model"_a, "output"_a, "options"_a, "on_progress"_a.none(),
             "on_message"_a.none());
  module.def("export", &export_written, "model"_a, "output"_a, "format"_a, "replace"_a, "on_progress"_a.none());
  module.def(
      "plan_conversion",
      [](const path& model, const ConvertOptions& options) {
        return without_lock([&] { return convert_plan_json(plan_conversion(model, options)); });
      },
      "model"_a, "options"_a);
}

}  // namespace ballast::python
