#include "ballast/statistics.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <filesystem>
#include <utility>
#include <vector>

#include "ballast/report.h"
#include "python/bindings/arrays.h"
#include "python/bindings/bindings.h"
#include "python/bindings/call.h"
#include "python/bindings/path_text.h"

namespace ballast::python {
namespace {

/// Returns an array of `values`, a vector in `Owner`, which the array keeps in memory.
template <class Owner, class T>
auto array_of(std::vector<T> Owner::* values) {
  return [values](nb::handle_t<Owner> self) { return shared_array(nb::cast<const Owner&>(self).*values, self); };
}

std::vector<float> absmax_of(const ChannelStatistics& channels) {
  std::vector<float> values(channels.min.size());
  for (std::size_t channel = 0; channel < values.size(); ++channel) values[channel] = channels.absmax(channel);
  return values;
}

std::vector<std::size_t> starved_experts(const ExpertStatistics& experts) {
  return experts.starved();
}

void bind_residual_stream(nb::module_& module) {
  nb::class_<TopValue>(module, "TopValue")
      .def_ro("value", &TopValue::value)
      .def_ro("sample", &TopValue::sample)
      .def_ro("position", &TopValue::position)
      .def_ro("token", &TopValue::token)
      .def_prop_ro("token_text",
                   [](const TopValue& top) { return nb::bytes(top.token_text.data(), top.token_text.size()); })
      .def_ro("channel", &TopValue::channel);
  nb::class_<LayerStatistics>(module, "LayerStatistics")
      .def_ro("layer", &LayerStatistics::layer)
      .def_ro("median", &LayerStatistics::median)
      .def_ro("top", &LayerStatistics::top)
      .def_ro("massive", &LayerStatistics::massive);
  nb::class_<MassiveChannel>(module, "MassiveChannel")
      .def_ro("channel", &MassiveChannel::channel)
      .def_ro("samples", &MassiveChannel::samples);
  nb::class_<MassiveToken>(module, "MassiveToken")
      .def_ro("token", &MassiveToken::token)
      .def_ro("position", &MassiveToken::position)
      .def_prop_ro(
          "token_text",
          [](const MassiveToken& token) { return nb::bytes(token.token_text.data(), token.token_text.size()); })
      .def_ro("samples", &MassiveToken::samples);
}

void bind_ranges(nb::module_& module) {
  nb::class_<ChannelStatistics>(module, "ChannelStatistics")
      .def_prop_ro("min", array_of(&ChannelStatistics::min))
      .def_prop_ro("max", array_of(&ChannelStatistics::max))
      .def_prop_ro("mean", array_of(&ChannelStatistics::mean))
      .def_prop_ro("mean_square", array_of(&ChannelStatistics::mean_square))
      .def_prop_ro("ordinary_absmax", array_of(&ChannelStatistics::ordinary_absmax))
      .def_prop_ro(
          "absmax",
          [](const ChannelStatistics& channels) { return owned_array<float, const float>(absmax_of(channels)); },
          nb::rv_policy::move);
  nb::class_<LinearInputStatistics>(module, "LinearInputStatistics")
      .def_ro("linears", &LinearInputStatistics::linears)
      .def_ro("channels", &LinearInputStatistics::channels)
      .def_prop_ro("absmax_ratio", &LinearInputStatistics::absmax_ratio)
      .def_prop_ro("outlier_channels", &LinearInputStatistics::outlier_channels);
  nb::class_<KeyValueStatistics>(module, "KeyValueStatistics")
      .def_ro("keys", &KeyValueStatistics::keys)
      .def_ro("values", &KeyValueStatistics::values);
  nb::class_<ExpertStatistics>(module, "ExpertStatistics")
      .def_ro("layer", &ExpertStatistics::layer)
      .def_prop_ro("tokens", array_of(&ExpertStatistics::tokens))
      .def_prop_ro("stand_ins", array_of(&ExpertStatistics::stand_ins))
      .def_prop_ro("entropy", &ExpertStatistics::entropy)
      .def_prop_ro("starved", &starved_experts);
}

NumpyArray<const int> tokens_of(nb::handle_t<Statistics> self) {
  const auto& statistics = nb::cast<const Statistics&>(self);
  return shared_array(statistics.tokens, {statistics.samples, statistics.length}, self);
}

NumpyArray<const float> sink_share_of(nb::handle_t<Statistics> self) {
  const auto& statistics = nb::cast<const Statistics&>(self);
  const std::size_t layers = statistics.heads == 0 ? 0 : statistics.sink_share.size() / statistics.heads;
  return shared_array(statistics.sink_share, {layers, statistics.heads}, self);
}

}  // namespace

void bind_statistics(nb::module_& module) {
  using nb::literals::operator""_a;
  bind_residual_stream(module);
  bind_ranges(module);
  module.attr("SINK_SHARE") = kSinkShare;
  module.def("is_massive", &is_massive, "magnitude"_a, "median"_a);
  nb::class_<Statistics>(module, "Statistics")
      .def_prop_ro("model", [](const Statistics& statistics) { return path_text(statistics.model); })
      .def_prop_ro("text", [](const Statistics& statistics) { return path_text(statistics.text); })
      .def_ro("samples", &Statistics::samples)
      .def_ro("length", &Statistics::length)
      .def_ro("seed", &Statistics::seed)
      .def_prop_ro("tokens", &tokens_of)
      .def_prop_ro("prefix", array_of(&Statistics::prefix))
      .def_ro("layers", &Statistics::layers)
      .def_ro("massive_channels", &Statistics::massive_channels)
      .def_ro("massive_tokens", &Statistics::massive_tokens)
      .def_prop_ro("sink_share", &sink_share_of)
      .def_ro("inputs", &Statistics::inputs)
      .def_ro("key_values", &Statistics::key_values)
      .def_ro("experts", &Statistics::experts);
  module.def(
      "load_statistics",
      [](const std::filesystem::path& path) { return without_lock([&] { return load_statistics(path); }); }, "path"_a);
  module.def(
      "save_statistics",
      [](const Statistics& statistics, const std::filesystem::path& path, bool replace) {
        without_lock([&] { save_statistics(statistics, path, replace); });
      },
      "statistics"_a, "path"_a, "replace"_a);
  module.def("statistics_json", &statistics_json, "statistics"_a);
  module.def("calibration_page", &calibration_page, "statistics"_a);
  module.def("save_calibration_page", &save_calibration_page, "statistics"_a, "path"_a, "replace"_a);
}

}  // namespace ballast::python
