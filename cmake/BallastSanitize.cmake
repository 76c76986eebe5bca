# BALLAST_SANITIZE: AddressSanitizer and UndefinedBehaviorSanitizer in everything that is built. BallastTargets.cmake says
# for which instruction sets.
option(BALLAST_SANITIZE "Build with AddressSanitizer and UndefinedBehaviorSanitizer" OFF)

if(BALLAST_SANITIZE)
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -O1 -g1)
  add_link_options(-fsanitize=address,undefined)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # With sanitizers gcc 12 finds uninitialized values in its own std::regex and std::optional that are none.
    add_compile_options(-Wno-maybe-uninitialized)
  else()
    add_compile_options(-Wno-pass-failed) # clang vectorizes nothing at -O1, and warns where a loop asks for it
  endif()
endif()

# BALLAST_SANITIZE_THREAD: ThreadSanitizer. It knows nothing of the barriers of gcc's OpenMP; clang's has a tool, Archer,
# that tells it (tests/CMakeLists.txt loads it). Which instruction set runs is no matter here.
option(BALLAST_SANITIZE_THREAD "Build with ThreadSanitizer (clang)" OFF)

if(BALLAST_SANITIZE_THREAD)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "BALLAST_SANITIZE_THREAD needs clang: cmake --preset tsan")
  endif()
  add_compile_options(-fsanitize=thread -O1 -g1)
  add_link_options(-fsanitize=thread)
  add_compile_definitions(HWY_COMPILE_ONLY_STATIC)
endif()

# For the room that holds SIMD code: four times faster to compile (41 s, 11 s) than with stack variables guarded by scope.
function(ballast_sanitize_simd target)
  if(BALLAST_SANITIZE)
    target_compile_options(${target} PRIVATE -fno-sanitize-address-use-after-scope)
  endif()
endfunction()
