# Toolchain: builds for ARM with Debian's cross compiler and the packages that scripts/aarch64/setup.sh unpacks, and
# runs programs under qemu. The environment variable QEMU_CPU selects the emulated CPU: scripts/aarch64/test.sh.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(triple aarch64-linux-gnu)
set(CMAKE_CXX_COMPILER ${triple}-g++)
set(CMAKE_LIBRARY_ARCHITECTURE ${triple})

# The host's files are not used: its libraries are for another machine, and its headers may have another version.
set(BALLAST_AARCH64_ROOT "${CMAKE_CURRENT_LIST_DIR}/../build/aarch64-root" CACHE PATH "Unpacked arm64 packages")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES BALLAST_AARCH64_ROOT)
file(REAL_PATH "${BALLAST_AARCH64_ROOT}" root)
set(CMAKE_FIND_ROOT_PATH "${root}")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
# OpenSSL has a separate header for each processor.
set(CMAKE_CXX_STANDARD_INCLUDE_DIRECTORIES "${root}/usr/include/${triple}")
set(ENV{PKG_CONFIG_LIBDIR} "${root}/usr/lib/${triple}/pkgconfig:${root}/usr/share/pkgconfig")
set(ENV{PKG_CONFIG_SYSROOT_DIR} "${root}")

# The loader and the C and C++ libraries come with the cross compiler. The others are found by the programs' RPATH,
# which, unlike RUNPATH, also applies to dependencies of libraries (OpenBLAS needs Fortran's).
set(CMAKE_EXE_LINKER_FLAGS_INIT -Wl,--disable-new-dtags)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/${triple})
