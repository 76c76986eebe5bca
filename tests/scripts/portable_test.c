// Tests what scripts/portable/ adds to programs for older C libraries. The argument "missing" hides the C library's own
// pthread_cond_clockwait.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void _gfortran_concat_string(size_t length, char* joined, size_t first_length, const char* first, size_t second_length,
                             const char* second);
uint32_t arc4random(void);

void* __real_dlsym(void* handle, const char* name);
void* __wrap_dlsym(void* handle, const char* name);

static int hides;

void* __wrap_dlsym(void* handle, const char* name) {
  return hides ? NULL : __real_dlsym(handle, name);
}

static void check(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "not true: %s\n", what);
  exit(1);
}

static struct timespec later(clockid_t clock, long milliseconds) {
  struct timespec time;
  clock_gettime(clock, &time);
  time.tv_nsec += milliseconds * 1000000;
  time.tv_sec += time.tv_nsec / 1000000000;
  time.tv_nsec %= 1000000000;
  return time;
}

static long milliseconds_since(const struct timespec* start) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (now.tv_sec - start->tv_sec) * 1000 + (now.tv_nsec - start->tv_nsec) / 1000000;
}

static void check_waits(void) {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  const clockid_t clocks[] = {CLOCK_MONOTONIC, CLOCK_REALTIME};
  for (int i = 0; i < 2; ++i) {
    const struct timespec start = later(CLOCK_MONOTONIC, 0);
    const struct timespec until = later(clocks[i], 950);  // the sum of nanoseconds is mostly above a second
    pthread_mutex_lock(&mutex);
    check(pthread_cond_clockwait(&condition, &mutex, clocks[i], &until) == ETIMEDOUT, "the wait ends by its time");
    pthread_mutex_unlock(&mutex);
    check(milliseconds_since(&start) >= 900, "the wait lasts as long as it should");
  }
  struct timespec past = later(CLOCK_MONOTONIC, 0);
  past.tv_sec -= past.tv_sec > 1 ? 2 : 0;
  pthread_mutex_lock(&mutex);
  check(pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &past) == ETIMEDOUT, "a time in the past ends at once");
  pthread_mutex_unlock(&mutex);
}

static void check_texts(void) {
  char joined[6] = "??????";
  _gfortran_concat_string(6, joined, 1, "U", 1, "N");
  check(memcmp(joined, "UN    ", 6) == 0, "short texts are filled with spaces");
  _gfortran_concat_string(3, joined, 2, "ab", 4, "cdef");
  check(memcmp(joined, "abc   ", 6) == 0, "long texts are cut");
}

int main(int count, char** arguments) {
  hides = count == 2 && strcmp(arguments[1], "missing") == 0;
  check_waits();
  check_texts();
  const uint32_t first = arc4random();
  check(first != arc4random() || first != arc4random(), "random numbers differ");
  puts("ok");
  return 0;
}
