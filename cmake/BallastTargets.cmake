# Which of Highway's instruction sets the kernels are compiled for: all that differ in what kernels use. HWY_NEON is
# HWY_NEON_WITHOUT_AES with encryption, HWY_SVE2 is HWY_SVE with more operations on integers than these.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  set(unused_targets "(HWY_NEON|HWY_SVE2)")
else()
  # Ice Lake, Tiger Lake, Rocket Lake: not among Highway 1.2's unless asked for. Processors with SSSE3 and no SSE4 were
  # made in 2006 and 2007: they run as SSE2.
  add_compile_definitions(HWY_WANT_AVX3_DL)
  set(unused_targets HWY_SSSE3)
endif()

# BALLAST_NATIVE: the best one that this machine runs, and the one that the compiler takes for granted. Of seven on x86,
# that is two: the kernels are most of what a build takes.
option(BALLAST_NATIVE "Kernels for this machine's instructions alone: a faster build, a slow program elsewhere" OFF)
if(BALLAST_NATIVE)
  if(CMAKE_CROSSCOMPILING)
    message(FATAL_ERROR "BALLAST_NATIVE asks this machine what it runs, which says nothing of ${CMAKE_SYSTEM_PROCESSOR}.")
  endif()
  try_run(native_run native_compiled
          SOURCE_FROM_CONTENT native_targets.cc [[
            #include <hwy/highway.h>
            #include <hwy/targets.h>

            #include <cinttypes>
            #include <cstdio>

            int main() {
              const std::int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;
              // Better ones have lower bits.
              std::printf("%" PRId64, (targets & -targets) | HWY_STATIC_TARGET);
            }
          ]]
          COMPILE_DEFINITIONS -DHWY_WANT_AVX3_DL "-DHWY_DISABLED_TARGETS=${unused_targets}"
          LINK_LIBRARIES hwy::hwy
          CXX_STANDARD 23
          COMPILE_OUTPUT_VARIABLE native_output
          RUN_OUTPUT_VARIABLE native_targets)
  if(NOT native_compiled OR NOT native_run EQUAL 0)
    message(FATAL_ERROR "BALLAST_NATIVE: what this machine runs cannot be told. ${native_output}")
  endif()
  set(unused_targets "(~${native_targets}LL)")
endif()
if(NOT (BALLAST_SANITIZE AND on_x86))  # which has a list of its own
  add_compile_definitions("HWY_DISABLED_TARGETS=${unused_targets}")
endif()
