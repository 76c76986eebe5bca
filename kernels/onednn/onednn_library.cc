#include "kernels/onednn/onednn_library.h"

#include <dlfcn.h>

#include <optional>

namespace ballast::kernels {
namespace {

/// Loads the system's library, else the one that the build found.
void* load() {
  for (const char* name : {BALLAST_ONEDNN_NAME, BALLAST_ONEDNN_PATH}) {
    if (void* library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL); library != nullptr) return library;
  }
  return nullptr;
}

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

std::optional<OneDnnLibrary> find_all() {
  void* library = load();
  if (library == nullptr) return std::nullopt;
  OneDnnLibrary found{};
  const bool all =
      find(library, "dnnl_brgemm_create", found.create) && find(library, "dnnl_brgemm_set_add_C", found.set_add_c) &&
      find(library, "dnnl_brgemm_finalize", found.finalize) && find(library, "dnnl_brgemm_generate", found.generate) &&
      find(library, "dnnl_brgemm_get_scratchpad_size", found.get_scratchpad_size) &&
      find(library, "dnnl_brgemm_set_hw_context", found.set_hw_context) &&
      find(library, "dnnl_brgemm_execute", found.execute) &&
      find(library, "dnnl_brgemm_release_hw_context", found.release_hw_context) &&
      find(library, "dnnl_brgemm_destroy", found.destroy);
  return all ? std::optional(found) : std::nullopt;
}

}  // namespace

const OneDnnLibrary* onednn_library() {
  static const std::optional<OneDnnLibrary> library = find_all();
  return library ? &*library : nullptr;
}

}  // namespace ballast::kernels
