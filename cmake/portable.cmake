# Toolchain: builds for any Linux with the C library 2.28 or later, in the system root that scripts/portable/setup.sh
# makes. All other libraries are inside of what it links; only those of the C library and libgcc are the system's.
if(NOT BALLAST_PORTABLE_ARCHITECTURE)
  set(BALLAST_PORTABLE_ARCHITECTURE "${CMAKE_HOST_SYSTEM_PROCESSOR}")
endif()
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES BALLAST_PORTABLE_ARCHITECTURE)
set(triple ${BALLAST_PORTABLE_ARCHITECTURE}-linux-gnu)
file(REAL_PATH "${CMAKE_CURRENT_LIST_DIR}/../build/portable/${BALLAST_PORTABLE_ARCHITECTURE}" root)
if(NOT BALLAST_PORTABLE_ARCHITECTURE STREQUAL CMAKE_HOST_SYSTEM_PROCESSOR)
  set(CMAKE_SYSTEM_NAME Linux)
  set(CMAKE_SYSTEM_PROCESSOR ${BALLAST_PORTABLE_ARCHITECTURE})
  set(CMAKE_CROSSCOMPILING_EMULATOR qemu-${BALLAST_PORTABLE_ARCHITECTURE} -L /usr/${triple})
endif()
set(CMAKE_C_COMPILER ${triple}-gcc)
set(CMAKE_CXX_COMPILER ${triple}-g++)
set(CMAKE_LIBRARY_ARCHITECTURE ${triple})
set(CMAKE_SYSROOT "${root}")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_LIBDIR} "${root}/usr/lib/${triple}/pkgconfig:${root}/usr/share/pkgconfig")
set(ENV{PKG_CONFIG_SYSROOT_DIR} "${root}")

foreach(language C CXX)
  set(CMAKE_${language}_FLAGS_INIT "-ffile-prefix-map=${root}=")
endforeach()
# Variables of the C library must not be copied into the program, as the linker does for code at a fixed place: the root's
# library has no code and no second names for them, by which the real one would find its copy (environ).
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
# The compiler looks in its own folders before those of the root. The libraries of the compiler need a newer C library
# than there is in the root, where they are used; libgcc is the system's.
set(flags "-B${root}/usr/lib/${triple} -L${root}/usr/lib/${triple}")
string(APPEND flags " -static-libstdc++ -Wl,--allow-shlib-undefined -Wl,--exclude-libs,ALL")
foreach(kind EXE SHARED MODULE)
  set(CMAKE_${kind}_LINKER_FLAGS_INIT "${flags}")
endforeach()
