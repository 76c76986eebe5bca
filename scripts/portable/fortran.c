// What LAPACK's two functions that ballast calls need of Fortran's runtime, which is ten times as large as they are.
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Joins two texts, and fills the destination with spaces.
__attribute__((visibility("hidden"))) void _gfortran_concat_string(size_t length, char* joined, size_t first_length,
                                                                   const char* first, size_t second_length,
                                                                   const char* second) {
  const char* const texts[] = {first, second};
  const size_t lengths[] = {first_length, second_length};
  for (int i = 0; i < 2; ++i) {
    const size_t count = lengths[i] < length ? lengths[i] : length;
    memcpy(joined, texts[i], count);
    joined += count;
    length -= count;
  }
  memset(joined, ' ', length);
}

// LAPACK calls this for a wrong argument.
__attribute__((visibility("hidden"))) void xerbla_(const char* routine, const int* argument, size_t length) {
  fprintf(stderr, "LAPACK: argument %d of %.*s is wrong\n", *argument, (int)length, routine);
  abort();
}
