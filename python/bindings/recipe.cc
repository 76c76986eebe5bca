#include "ballast/recipe.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "ballast/convert.h"
#include "ballast/explain.h"
#include "python/bindings/bindings.h"
#include "python/bindings/call.h"

namespace ballast::python {

void bind_recipe(nb::module_& module) {
  using nb::literals::operator""_a;
  nb::class_<Recipe>(module, "Recipe");
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
