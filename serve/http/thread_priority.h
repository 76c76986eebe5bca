#ifndef BALLAST_SERVE_HTTP_THREAD_PRIORITY_H_
#define BALLAST_SERVE_HTTP_THREAD_PRIORITY_H_

#include <sys/resource.h>

namespace ballast::serve {

/// Lets other threads go before the calling one, up to 19. Only Linux has a priority for each thread: elsewhere this
/// does nothing.
inline void lower_priority([[maybe_unused]] int niceness) {
#ifdef __linux__
  if (niceness > 0) ::setpriority(PRIO_PROCESS, 0, niceness);
#endif
}

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_HTTP_THREAD_PRIORITY_H_
