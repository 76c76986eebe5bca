# Selects Highway's instruction sets for the kernels: all that differ in operations that kernels use. HWY_NEON adds only
# encryption to HWY_NEON_WITHOUT_AES, and HWY_SVE2 only integer operations that kernels do not use to HWY_SVE. Of the
# extensions of AVX-512, kernels use single instructions in addition to HWY_AVX3 (Extension in kernels/target.h); the
# rest of their code would be the same.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  set(unused_targets "(HWY_NEON|HWY_SVE2)")
else()
  # Processors with SSSE3 but without SSE4, which were made in 2006 and 2007, use SSE2.
  set(unused_targets "(HWY_SSSE3|HWY_AVX3_DL|HWY_AVX3_ZEN4|HWY_AVX3_SPR)")
endif()

# Sets masks of Highway's targets: all that this machine supports, and the best of them, each with the compiler's
# baseline target.
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
    message(FATAL_ERROR "The instruction sets of this machine cannot be determined. ${output}")
  endif()
  list(GET targets 0 all_targets)
  list(GET targets 1 best_targets)
  set(${all} ${all_targets} PARENT_SCOPE)
  set(${best} ${best_targets} PARENT_SCOPE)
endfunction()

# BALLAST_NATIVE: the best target of this machine, and the compiler's baseline target. These are two of four on x86,
# which saves much of the time of a build.
option(BALLAST_NATIVE "Compile the kernels only for this machine's instruction sets (slow on other machines)" OFF)
if(BALLAST_NATIVE)
  if(CMAKE_CROSSCOMPILING)
    message(FATAL_ERROR "BALLAST_NATIVE is not possible in a build for another machine (${CMAKE_SYSTEM_PROCESSOR}).")
  endif()
  ballast_machine_targets(all best)
  set(unused_targets "(~${best}LL)")
elseif(BALLAST_SANITIZE AND on_x86)
  # Highway's operations are deeply inlined, which sanitizers make slow to compile: minutes for the quantized matrix
  # product with every target. So on machines with AVX2 this build requires it, and has AVX2 and, if this machine has it,
  # AVX-512; the release build's tests run all targets. AVX-VNNI's instruction is encoded as in AVX-512, so that AVX2
  # with VNNI is also tested on processors that have only the AVX-512 encoding.
  set(unlike_this_machine "")
  if(NOT CMAKE_CROSSCOMPILING)
    ballast_machine_targets(all best)
    set(unlike_this_machine "|~${all}LL")
    math(EXPR avx2 "${all} & (1 << 9)")  # HWY_AVX2
    if(avx2)
      add_compile_options(-march=haswell -maes -mpclmul)
    endif()
  endif()
  set(unused_targets "(${unused_targets}|HWY_SSE4${unlike_this_machine})")
  add_compile_definitions(BALLAST_VNNI_BY_EVEX BALLAST_SMALL_TILES)
endif()
add_compile_definitions("HWY_DISABLED_TARGETS=${unused_targets}")
