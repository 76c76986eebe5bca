#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <string>
#include <tuple>

#include "ballast/cache.h"
#include "ballast/hub_name.h"
#include "ballast/model_options.h"
#include "ballast/prefix.h"
#include "ballast/text.h"
#include "python/bindings/bindings.h"
#include "python/bindings/call.h"

namespace ballast::python {

void bind_options(nb::module_& module) {
  using nb::literals::operator""_a;
  nb::enum_<CacheOptions::Type>(module, "CacheType")
      .value("auto", CacheOptions::Type::kAuto)
      .value("f32", CacheOptions::Type::kF32)
      .value("f16", CacheOptions::Type::kF16)
      .value("int8", CacheOptions::Type::kInt8);
  nb::class_<CacheOptions>(module, "CacheOptions")
      .def(nb::init<>())
      .def_rw("type", &CacheOptions::type)
      .def_rw("window", &CacheOptions::window)
      .def_rw("sinks", &CacheOptions::sinks);
  nb::enum_<ActivationType>(module, "Activations")
      .value("int8", ActivationType::kInt8)
      .value("int16", ActivationType::kInt16)
      .value("float", ActivationType::kFloat);
  nb::class_<ModelOptions>(module, "ModelOptions")
      .def(nb::init<>())
      .def_rw("activations", &ModelOptions::activations)
      .def_rw("chat_template", &ModelOptions::chat_template)
      .def_rw("generation_config", &ModelOptions::generation_config)
      .def_rw("expert_bytes", &ModelOptions::expert_bytes)
      .def_rw("context", &ModelOptions::context)
      .def_rw("draft_head", &ModelOptions::draft_head)
      .def_rw("compute", &ModelOptions::compute);
  nb::class_<CachedPrefix>(module, "CachedPrefix")
      .def(nb::init<>())
      .def_ro("automatic", &CachedPrefix::automatic)
      .def_ro("tokens", &CachedPrefix::tokens);
  module.def("parse_prefix", &parse_prefix, "name"_a, "context"_a);
  module.def(
      "parse_hub_name",
      [](const std::filesystem::path& model) {
        using Parts = std::tuple<std::string, std::string, std::string>;  // the arguments of _hub.fetch()
        const auto parts = [](const HubName& name) { return Parts(name.repository, name.file, name.revision); };
        return parse_hub_name(model).transform(parts);
      },
      "model"_a);
  module.def(
      "parse_bytes",
      [](std::string_view option, std::string_view size) {
        return or_value_error([&] { return text::parse_bytes(option, size); });
      },
      "option"_a, "size"_a);
}

}  // namespace ballast::python
