#include "ballast/processor.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <optional>
#include <string_view>

#include "ballast/compute_options.h"
#include "ballast/threads.h"
#include "python/bindings/bindings.h"
#include "python/bindings/call.h"

namespace ballast::python {

void bind_processor(nb::module_& module) {
  using nb::literals::operator""_a;
  module.def(
      "use_threads",
      [](std::optional<std::size_t> count, std::optional<bool> pin) { set_threads({.count = count, .pin = pin}); },
      "count"_a.none(), "pin"_a.none());
  module.def("available_cores", &available_cores);
  nb::class_<ComputeOptions>(module, "ComputeOptions");
  module.def("simd_targets", &simd_targets);
  module.def("simd_target", &simd_target);
  module.def("use_simd_target", &use_simd_target, "name"_a);
  module.def("engines", &engines);
  module.def(
      "compute_options",
      [](std::string_view engine, bool bf16) {
        const ComputeOptions options = {.float_gemm = parse_float_gemm(engine), .bf16_products = bf16};
        check_compute_options(options);
        return options;
      },
      "engine"_a, "bf16"_a);
}

}  // namespace ballast::python
