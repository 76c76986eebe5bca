// The parts of ballast._ballast: each function adds the names of one topic to the module.
//
// The module has the library's structs and functions unchanged; python/ballast/ builds the public package on it.
#ifndef BALLAST_PYTHON_BINDINGS_BINDINGS_H_
#define BALLAST_PYTHON_BINDINGS_BINDINGS_H_

#include <nanobind/nanobind.h>

namespace ballast::python {

namespace nb = nanobind;

/// Makes ballast's exceptions ballast.Error and its subclasses in Python.
void bind_errors();

void bind_processor(nb::module_& module);
void bind_options(nb::module_& module);
void bind_recipe(nb::module_& module);
void bind_statistics(nb::module_& module);
void bind_calibrate(nb::module_& module);
void bind_convert(nb::module_& module);
void bind_evaluate(nb::module_& module);
void bind_benchmark(nb::module_& module);
void bind_sweep(nb::module_& module);
void bind_model(nb::module_& module);
void bind_generate(nb::module_& module);

}  // namespace ballast::python

#endif  // BALLAST_PYTHON_BINDINGS_BINDINGS_H_
