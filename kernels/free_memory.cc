#include "kernels/free_memory.h"

#ifdef __linux__
#include <malloc.h>
#endif

namespace ballast::kernels {

void give_back_free_memory() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

}  // namespace ballast::kernels
