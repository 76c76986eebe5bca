#ifndef BALLAST_SERVE_HTTP_THREAD_PRIORITY_H_
#define BALLAST_SERVE_HTTP_THREAD_PRIORITY_H_

#include <sys/resource.h>

namespace ballast::serve {

/// Lowers the priority of the calling thread by `niceness`, up to 19. Only Linux has a priority for each thread; on
/// other systems this does nothing.
inline void lower_priority([[maybe_unused]] int niceness) {
#ifdef __linux__
  if (niceness > 0) ::setpriority(PRIO_PROCESS, 0, niceness);
#endif
}

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_HTTP_THREAD_PRIORITY_H_
