#include "ballast/version.h"

#include "jobs/mpi/module.h"
#include "kernels/compiled_targets.h"
#include "kernels/float_gemm.h"

namespace ballast {

std::string_view version() {
  return BALLAST_VERSION;
}

Features features() {
  return {.simd_targets = kernels::compiled_targets(),
          .onednn = kernels::onednn_gemm() != nullptr,
          .mpi = jobs::mpi_module_is_here()};
}

}  // namespace ballast
