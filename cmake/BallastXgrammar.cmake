# BALLAST_XGRAMMAR: constraints of generated text (JSON Schemas, regular expressions, grammars) by xgrammar. It has no
# package: scripts/setup.sh fetches its sources once into a cache, and they are compiled here with the compiler and the
# options of this build, so that sanitizers and fuzzers see them, too.
option(BALLAST_XGRAMMAR "Constrain generated text by JSON Schemas and grammars (xgrammar)" ON)

set(BALLAST_XGRAMMAR_VERSION 0.2.8)
set(cache "$ENV{XDG_CACHE_HOME}")
if(NOT cache)
  set(cache "$ENV{HOME}/.cache")
endif()
set(BALLAST_XGRAMMAR_SOURCE "${cache}/ballast/xgrammar-${BALLAST_XGRAMMAR_VERSION}" CACHE PATH
    "Sources of xgrammar ${BALLAST_XGRAMMAR_VERSION}")

if(BALLAST_XGRAMMAR)
  set(source "${BALLAST_XGRAMMAR_SOURCE}")
  if(NOT EXISTS "${source}/include/xgrammar/xgrammar.h")
    message(FATAL_ERROR "ballast needs the sources of xgrammar ${BALLAST_XGRAMMAR_VERSION}, which are not in ${source}. "
                        "Run scripts/setup.sh, or build without constraints: -DBALLAST_XGRAMMAR=OFF.")
  endif()
  file(GLOB_RECURSE sources "${source}/cpp/*.cc")
  list(FILTER sources EXCLUDE REGEX "/cpp/tvm_ffi/")  # its Python bindings
  add_library(ballast_xgrammar OBJECT ${sources})
  target_include_directories(ballast_xgrammar SYSTEM PUBLIC "$<BUILD_INTERFACE:${source}/include>"
                                                            "$<BUILD_INTERFACE:${source}/3rdparty/dlpack/include>"
                             PRIVATE "${source}/3rdparty/picojson")
  target_compile_definitions(ballast_xgrammar PRIVATE XGRAMMAR_ENABLE_CPPTRACE=0 XGRAMMAR_ENABLE_INTERNAL_CHECK=0
                                                      XGRAMMAR_LOG_CUSTOMIZE=1)  # text/constraint has its log
  # Its warnings are not ours, nor is its arithmetic: checks of it would double the time to compile. With sanitizers -O1
  # would take 187 s on one core, -O0 takes 67 s.
  target_compile_options(ballast_xgrammar PRIVATE -w $<$<CONFIG:Release>:-O2>
                                                  $<$<BOOL:${BALLAST_SANITIZE}>:-O0 -fno-sanitize=undefined>
                                                  $<$<BOOL:${BALLAST_SANITIZE_THREAD}>:-O0>)
  set_target_properties(ballast_xgrammar PROPERTIES CXX_STANDARD 17 POSITION_INDEPENDENT_CODE ON UNITY_BUILD ON
                                                    UNITY_BUILD_BATCH_SIZE 9 CXX_CLANG_TIDY "")
  # It has names that hide those of another file.
  set_property(SOURCE "${source}/cpp/converter_ext/minimax_m3.cc" PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)
  set_property(GLOBAL APPEND PROPERTY BALLAST_ROOMS ballast_xgrammar)
endif()
message(STATUS "Constraints of generated text: ${BALLAST_XGRAMMAR}")
