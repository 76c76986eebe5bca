# ballast_room(FOLDER [DEPENDS ROOM] [LIBRARIES ...])
#
# One target per top-level folder: ballast_kernels, ballast_model, ... holding every .cc file below it. A room is seen by
# others only through its own include root, a build folder with one link to the source folder in it. So
# `#include "quant/x.h"` from kernels/ does not compile: nothing that kernels links to brings that root along.
function(ballast_room folder)
  cmake_parse_arguments(PARSE_ARGV 1 ROOM "" "DEPENDS" "LIBRARIES")
  cmake_path(GET folder FILENAME name)
  if(folder STREQUAL "include/ballast")
    set(target ballast_api)
  else()
    set(target ballast_${name})
  endif()

  set(root "${PROJECT_BINARY_DIR}/rooms/${name}")
  file(MAKE_DIRECTORY "${root}")
  file(CREATE_LINK "${PROJECT_SOURCE_DIR}/${folder}" "${root}/${name}" SYMBOLIC)

  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${folder}/*.cc")
  list(FILTER sources EXCLUDE REGEX "/mpi/[^/]*$")  # a module of its own: BallastMpi.cmake
  list(FILTER sources EXCLUDE REGEX "/kernels/reference/[^/]*$")  # what only tests and benchmarks link
  if(sources)
    add_library(${target} OBJECT ${sources})
    set(scope PUBLIC)
    ballast_warnings(${target})
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    if(NOT folder STREQUAL "kernels")  # each of its files is compiled once for every SIMD target, which takes the time
      ballast_precompile(${target})
    endif()
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(${target} ${scope} "$<BUILD_INTERFACE:${root}>")
  target_link_libraries(${target} ${scope} ${ROOM_LIBRARIES})
  if(ROOM_DEPENDS)
    cmake_path(GET ROOM_DEPENDS FILENAME below)
    if(ROOM_DEPENDS STREQUAL "include/ballast")
      set(below api)
    endif()
    target_link_libraries(${target} ${scope} ballast_${below})
  endif()
  set_property(GLOBAL APPEND PROPERTY BALLAST_ROOMS ${target})
endfunction()

# What most files of every room include: two thirds of the time that compiling one took. CI builds without (the ARM build,
# BALLAST_PRECOMPILE=OFF), so that no file leans on it.
option(BALLAST_PRECOMPILE "Precompile the headers of the standard library and of JSON" ON)
function(ballast_precompile target)
  if(BALLAST_PRECOMPILE)
    target_precompile_headers(${target} PRIVATE <algorithm> <cmath> <cstddef> <cstdint> <filesystem> <functional> <map>
                              <memory> <nlohmann/json.hpp> <optional> <span> <string> <string_view> <utility> <vector>
                              ${ARGN})
  endif()
endfunction()

# The warnings that every target of ballast is built with.
function(ballast_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor
                                           -Woverloaded-virtual -Wcast-qual
                                           # gcc 12 reports std::string concatenations, wrongly (PR105651)
                                           $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
  if(BALLAST_PRECOMPILE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # What it reports of the same once the library's headers are precompiled; the ARM build looks without.
    target_compile_options(${target} PRIVATE -Wno-stringop-overflow -Wno-array-bounds)
  endif()
  if(BALLAST_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
endfunction()
