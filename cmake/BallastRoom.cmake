# ballast_room(FOLDER [DEPENDS ROOM] [LIBRARIES ...])
# Adds one target per top-level folder, such as ballast_kernels, with every .cc file below it. Other rooms include its
# headers only through its own include root, a build folder with one link to the source folder. So kernels/ cannot
# include "quant/x.h": no dependency of kernels provides that include root.
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
  list(FILTER sources EXCLUDE REGEX "/mpi/[^/]*$")  # a separate module: BallastMpi.cmake
  list(FILTER sources EXCLUDE REGEX "/kernels/onednn/[^/]*$")  # only with oneDNN
  list(FILTER sources EXCLUDE REGEX "/kernels/reference/[^/]*$")  # only for tests and benchmarks
  if(sources)
    add_library(${target} OBJECT ${sources})
    set(scope PUBLIC)
    ballast_warnings(${target})
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    if(folder STREQUAL "kernels")  # foreach_target.h includes one file repeatedly, once for every SIMD target
      set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)
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

# The warnings that every target of ballast is built with.
function(ballast_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor
                                           -Woverloaded-virtual -Wcast-qual
                                           # gcc 12 reports correct concatenations of std::string (PR105651)
                                           $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
                                           # clang reports deprecated functions that g++'s library uses
                                           $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>)
  if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # In unity builds it takes .cc files for headers, and reports classes with members of types that are local to a
    # file.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
  if(BALLAST_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
endfunction()
