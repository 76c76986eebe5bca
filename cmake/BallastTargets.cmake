# Which of Highway's instruction sets the kernels are compiled for: all that differ in what kernels use. HWY_NEON is
# HWY_NEON_WITHOUT_AES with encryption, HWY_SVE2 is HWY_SVE with more operations on integers than these. What kernels use
# of AVX-512's later ones are instructions that stand beside HWY_AVX3 (Extension in kernels/target.h); all else would become
# the same code again.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  set(unused_targets "(HWY_NEON|HWY_SVE2)")
else()
  # Processors with SSSE3 and no SSE4 were made in 2006 and 2007: they run as SSE2.
  set(unused_targets "(HWY_SSSE3|HWY_AVX3_DL|HWY_AVX3_ZEN4|HWY_AVX3_SPR)")
endif()

# Masks of Highway's targets: all that this machine runs, and the best of them, each with the one that the compiler takes
# for granted.
function(ballast_machine_targets all best)
  try_run(machine_run machine_compiled
          SOURCE_FROM_CONTENT machine_targets.cc [[
            #include <hwy/highway.h>
            #include <hwy/targets.h>

            #include <cinttypes>
            #include <cstdio>

            int main() {
              const std::int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;
              // Better ones have lower bits.
              std::printf("%" PRId64 ";%" PRId64, targets | HWY_STATIC_TARGET, (targets & -targets) | HWY_STATIC_TARGET);
            }
          ]]
          COMPILE_DEFINITIONS "-DHWY_DISABLED_TARGETS=${unused_targets}"
          LINK_LIBRARIES hwy::hwy
          CXX_STANDARD 23
          COMPILE_OUTPUT_VARIABLE output
          RUN_OUTPUT_VARIABLE targets)
  if(NOT machine_compiled OR NOT machine_run EQUAL 0)
    message(FATAL_ERROR "What this machine runs cannot be told. ${output}")
  endif()
  list(GET targets 0 all_targets)
  list(GET targets 1 best_targets)
  set(${all} ${all_targets} PARENT_SCOPE)
  set(${best} ${best_targets} PARENT_SCOPE)
endfunction()

# BALLAST_NATIVE: the best one that this machine runs, and the one that the compiler takes for granted. Of four on x86, that
# is two: the kernels are much of what a build takes.
option(BALLAST_NATIVE "Kernels for this machine's instructions alone: a faster build, a slow program elsewhere" OFF)
if(BALLAST_NATIVE)
  if(CMAKE_CROSSCOMPILING)
    message(FATAL_ERROR "BALLAST_NATIVE asks this machine what it runs, which says nothing of ${CMAKE_SYSTEM_PROCESSOR}.")
  endif()
  ballast_machine_targets(all best)
  set(unused_targets "(~${best}LL)")
elseif(BALLAST_SANITIZE AND on_x86)
  # Highway's operations are inlined deep, which sanitizers make slow to compile: minutes for the quantized matrix product
  # with every target. Here run SSE2, AVX2 and AVX-512, where this machine has it; the release build's tests run all
  # targets. AVX-VNNI's instruction is encoded as AVX-512 has it, so that AVX2 with VNNI is tested where a processor has the
  # one alone.
  set(unlike_this_machine "")
  if(NOT CMAKE_CROSSCOMPILING)
    ballast_machine_targets(all best)
    set(unlike_this_machine "|~${all}LL")
  endif()
  set(unused_targets "(${unused_targets}|HWY_SSE4${unlike_this_machine})")
  add_compile_definitions(BALLAST_VNNI_BY_EVEX BALLAST_SMALL_TILES)
endif()
add_compile_definitions("HWY_DISABLED_TARGETS=${unused_targets}")
