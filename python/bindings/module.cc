#include <nanobind/nanobind.h>
#include <nanobind/stl/string_view.h>

#include "ballast/version.h"
#include "python/bindings/bindings.h"

NB_MODULE(_ballast, module) {
  namespace python = ballast::python;
  module.doc() = "ballast's C++ API as it is; what users see of it is in the package ballast";
  module.def("version", &ballast::version);
  python::bind_errors();
  python::bind_processor(module);
  python::bind_options(module);
  python::bind_recipe(module);
  python::bind_statistics(module);
  python::bind_calibrate(module);
  python::bind_convert(module);
  python::bind_evaluate(module);
  python::bind_benchmark(module);
  python::bind_sweep(module);
  python::bind_model(module);
  python::bind_generate(module);
}
