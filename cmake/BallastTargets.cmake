# Which of Highway's instruction sets the kernels are compiled for: all that differ in what kernels use. HWY_NEON is
# HWY_NEON_WITHOUT_AES with encryption, HWY_SVE2 is HWY_SVE with more operations on integers than these.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  add_compile_definitions("HWY_DISABLED_TARGETS=(HWY_NEON|HWY_SVE2)")
else()
  # Ice Lake, Tiger Lake, Rocket Lake: not among Highway 1.2's unless asked for. Processors with SSSE3 and no SSE4 were
  # made in 2006 and 2007: they run as SSE2.
  add_compile_definitions(HWY_WANT_AVX3_DL)
  if(NOT BALLAST_SANITIZE)  # which has a list of its own
    add_compile_definitions(HWY_DISABLED_TARGETS=HWY_SSSE3)
  endif()
endif()
