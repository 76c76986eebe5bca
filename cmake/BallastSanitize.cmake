# BALLAST_SANITIZE: AddressSanitizer and UndefinedBehaviorSanitizer in all targets. BallastTargets.cmake selects the
# instruction sets.
option(BALLAST_SANITIZE "Build with AddressSanitizer and UndefinedBehaviorSanitizer" OFF)

if(BALLAST_SANITIZE)
  # AddressSanitizer reports what is read and written through a wrong pointer; checks of the pointers themselves, before
  # they are used, would be half of the time to compile.
  add_compile_options(-fsanitize=address,undefined -fno-sanitize=null,object-size,pointer-overflow
                      -fno-sanitize-recover=all -fno-omit-frame-pointer -O1 -g1)
  add_link_options(-fsanitize=address,undefined)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # With sanitizers gcc 12 wrongly reports uninitialized values in its own std::regex and std::optional.
    add_compile_options(-Wno-maybe-uninitialized)
  else()
    add_compile_options(-Wno-pass-failed)  # clang does not vectorize at -O1, and warns about loops that request it
  endif()
endif()

# BALLAST_SANITIZE_THREAD: ThreadSanitizer. It does not recognize the barriers of gcc's OpenMP; clang's has a tool,
# Archer, that reports them to it (tests/CMakeLists.txt loads it). One instruction set is sufficient here.
option(BALLAST_SANITIZE_THREAD "Build with ThreadSanitizer (clang)" OFF)

if(BALLAST_SANITIZE_THREAD)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "BALLAST_SANITIZE_THREAD needs clang: cmake --preset tsan")
  endif()
  add_compile_options(-fsanitize=thread -O1 -g1)
  add_link_options(-fsanitize=thread)
  add_compile_definitions(HWY_COMPILE_ONLY_STATIC)
endif()

# For the room with SIMD code: without checks for uses of stack variables after their scope it compiles four times
# faster (11 s, not 41 s).
function(ballast_sanitize_simd target)
  if(BALLAST_SANITIZE)
    target_compile_options(${target} PRIVATE -fno-sanitize-address-use-after-scope)
  endif()
endfunction()
