# Tests that find_package(ballast) finds the result of `cmake --install`, and that programs compile, link and run with
# it.
function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE "${WORK}")
run("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${WORK}/prefix")
run("${CMAKE_COMMAND}" -S "${CONSUMER}" -B "${WORK}/build" -G "${GENERATOR}" "-DCMAKE_CXX_COMPILER=${COMPILER}"
    -DCMAKE_BUILD_TYPE=Release "-DCMAKE_PREFIX_PATH=${WORK}/prefix")
run("${CMAKE_COMMAND}" --build "${WORK}/build")
run("${WORK}/build/consumer")
run("${WORK}/build/streams" "${MODEL}")
run("${WORK}/prefix/bin/ballast" --help)
foreach(file bin/ballast share/man/man1/ballast-run.1 share/bash-completion/completions/ballast
             share/zsh/site-functions/_ballast share/fish/vendor_completions.d/ballast.fish)
  if(NOT EXISTS "${WORK}/prefix/${file}")
    message(FATAL_ERROR "${file} is not installed")
  endif()
endforeach()
# The bytes do not depend on the folder of the build. (In other builds, assertions contain the path of their file.)
if(BUILD_TYPE STREQUAL "Release")
  execute_process(COMMAND grep -aoF "${SOURCE}" "${WORK}/prefix/bin/ballast" RESULT_VARIABLE absent OUTPUT_QUIET)
  if(NOT absent EQUAL 1)
    message(FATAL_ERROR "the program holds the folder that it was built in, ${SOURCE}")
  endif()
endif()
