// oneDNN's micro-kernels (brgemm), in a library that is loaded when the first one is needed: its constructors take 7 MB
// and milliseconds of every start, and most programs run quantized weights, which it does not multiply.
#ifndef BALLAST_KERNELS_ONEDNN_ONEDNN_LIBRARY_H_
#define BALLAST_KERNELS_ONEDNN_ONEDNN_LIBRARY_H_

#include <oneapi/dnnl/dnnl_ukernel.h>

namespace ballast::kernels {

/// The library's C functions, with the declarations of its header.
struct OneDnnLibrary {
  decltype(&dnnl_brgemm_create) create;
  decltype(&dnnl_brgemm_set_add_C) set_add_c;
  decltype(&dnnl_brgemm_finalize) finalize;
  decltype(&dnnl_brgemm_generate) generate;
  decltype(&dnnl_brgemm_get_scratchpad_size) get_scratchpad_size;
  decltype(&dnnl_brgemm_set_hw_context) set_hw_context;
  decltype(&dnnl_brgemm_execute) execute;
  decltype(&dnnl_brgemm_release_hw_context) release_hw_context;
  decltype(&dnnl_brgemm_destroy) destroy;
};

/// Loads the library at the first call, and never unloads it. Returns null if it cannot be loaded or has no
/// micro-kernels.
const OneDnnLibrary* onednn_library();

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_ONEDNN_ONEDNN_LIBRARY_H_
