// What Debian 12's libstdc++ uses of the C library and 2.28 lacks. It is linked into each portable program and library,
// and hidden in them.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

// Nonzero would let the counts of shared pointers change without atomic instructions (2.32).
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;

// For std::random_device (2.36).
__attribute__((visibility("hidden"))) uint32_t arc4random(void) {
  uint32_t value;
  while (getrandom(&value, sizeof value, 0) != sizeof value) {
    if (errno != EINTR) abort();
  }
  return value;
}

// For waits of std::condition_variable on its steady clock (2.30). Where the C library has it, it is used; elsewhere the
// rest of the time is waited for on the clock that can be set.
__attribute__((visibility("hidden"))) int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                                                 clockid_t clock, const struct timespec* until) {
  typedef int (*Wait)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const struct timespec*);
  static Wait wait;
  static int searched;
  if (!__atomic_load_n(&searched, __ATOMIC_ACQUIRE)) {
    __atomic_store_n(&wait, (Wait)dlsym(RTLD_NEXT, "pthread_cond_clockwait"), __ATOMIC_RELAXED);
    __atomic_store_n(&searched, 1, __ATOMIC_RELEASE);
  }
  const Wait found = __atomic_load_n(&wait, __ATOMIC_RELAXED);
  if (found != NULL) return found(condition, mutex, clock, until);
  if (clock == CLOCK_REALTIME) return pthread_cond_timedwait(condition, mutex, until);
  struct timespec now;
  struct timespec end;
  if (clock_gettime(clock, &now) != 0 || clock_gettime(CLOCK_REALTIME, &end) != 0) return EINVAL;
  const long second = 1000000000;
  end.tv_sec += until->tv_sec - now.tv_sec;
  end.tv_nsec += until->tv_nsec - now.tv_nsec;
  while (end.tv_nsec < 0) {
    end.tv_nsec += second;
    --end.tv_sec;
  }
  while (end.tv_nsec >= second) {
    end.tv_nsec -= second;
    ++end.tv_sec;
  }
  return pthread_cond_timedwait(condition, mutex, &end);
}
