#include "ballast/recipe.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstddef>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "ballast/convert.h"
#include "ballast/explain.h"
#include "ballast/recipe_changes.h"
#include "python/bindings/bindings.h"
#include "python/bindings/call.h"

namespace ballast::python {
namespace {

/// An error of RecipeChanges has the name of an option as its context: "wide-inputs" is `wide_inputs` in Python.
template <class Function>
auto change_or_value_error(const Function& function) {
  return or_value_error([&] {
    try {
      return function();
    } catch (const Error& error) {
      std::string message = error.what();
      std::replace(message.begin(), message.begin() + static_cast<std::ptrdiff_t>(error.context().size()), '-', '_');
      throw Error(message);
    }
  });
}

void bind_changes(nb::module_& module) {
  using nb::literals::operator""_a;
  nb::enum_<Recipe::Rounding> roundings(module, "Rounding");
  for (const auto rounding : {Recipe::Rounding::kNearest, Recipe::Rounding::kScaleSearch, Recipe::Rounding::kGptq}) {
    roundings.value(std::string(rounding_name(rounding)).c_str(), rounding);
  }
  nb::class_<WeightFormat>(module, "WeightFormat").def_prop_ro("is_ballast_format", &WeightFormat::is_ballast_format);
  module.def("parse_format", &parse_format, "name"_a);
  nb::class_<FormatOverride>(module, "FormatOverride")
      .def(
          "__init__",
          [](FormatOverride* entry, std::string pattern, const WeightFormat& format) {
            new (entry) FormatOverride{std::move(pattern), format};
          },
          "pattern"_a, "format"_a);
  // The attributes have the names of the keyword arguments.
  nb::class_<RecipeChanges>(module, "RecipeChanges")
      .def(nb::init<>())
      .def_rw("bits", &RecipeChanges::bits)
      .def_rw("group_size", &RecipeChanges::group_size)
      .def_rw("scale_bits", &RecipeChanges::scale_bits)
      .def_rw("symmetric", &RecipeChanges::symmetric)
      .def_rw("rounding", &RecipeChanges::rounding)
      .def_rw("target_size", &RecipeChanges::target_bytes)
      .def_rw("outliers", &RecipeChanges::outlier_fraction)
      .def_rw("activation_scales", &RecipeChanges::activation_groups)
      .def_rw("wide_inputs", &RecipeChanges::int16_activation_fraction)
      .def_rw("embedding", &RecipeChanges::embedding)
      .def_rw("head", &RecipeChanges::head)
      .def_rw("format", &RecipeChanges::overrides)
      .def_rw("prefix", &RecipeChanges::prefix)
      .def_rw("switches", &RecipeChanges::switches);
  module.def(
      "change_recipe",
      [](const Recipe& recipe, const RecipeChanges& changes) {
        return change_or_value_error([&] { return change_recipe(recipe, changes); });
      },
      "recipe"_a, "changes"_a);
  module.def(
      "check_changes",
      [](const RecipeChanges& changes, std::string_view format) {
        change_or_value_error([&] { check_changes(changes, parse_output_format(format)); });
      },
      "changes"_a, "format"_a);
}

}  // namespace

void bind_recipe(nb::module_& module) {
  using nb::literals::operator""_a;
  nb::class_<Recipe>(module, "Recipe");
  bind_changes(module);
  module.def("recipe_for_scheme", &recipe_for_scheme, "scheme"_a);
  module.def("recipe_json", &recipe_json, "recipe"_a);
  module.def("parse_recipe", &parse_recipe, "json"_a, "context"_a);
  module.def("read_recipe", &read_recipe, "path"_a);
  module.def("scheme_names", &scheme_names);
  module.def(
      "explain",
      [](const std::filesystem::path& model, const Recipe& recipe, std::string_view format) {
        const OutputFormat output_format = parse_output_format(format);
        return without_lock([&] { return fold_lines_json(explain_folds(model, recipe, output_format)); });
      },
      "model"_a, "recipe"_a, "format"_a);
}

}  // namespace ballast::python
