#include "python/bindings/bindings.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string_view.h>

#include "ballast/version.h"

NB_MODULE(_ballast, module) {
  using namespace ballast::python;
  module.doc() = "ballast's C++ API as it is; what users see of it is in the package ballast";
  module.def("version", &ballast::version);
  bind_errors();
  bind_processor(module);
  bind_options(module);
  bind_recipe(module);
  bind_statistics(module);
  bind_calibrate(module);
  bind_convert(module);
  bind_evaluate(module);
  bind_benchmark(module);
  bind_sweep(module);
  bind_model(module);
  bind_generate(module);
}
