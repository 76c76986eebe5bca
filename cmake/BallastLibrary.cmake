# libballast: all rooms in one library, which is installed with the public headers as a CMake package.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# A shared library is useful if several programs are shipped together, as in the Python package.
option(BALLAST_SHARED "Build libballast as a shared library" OFF)

get_property(rooms GLOBAL PROPERTY BALLAST_ROOMS)
if(BALLAST_SHARED)
  add_library(ballast SHARED)
else()
  add_library(ballast STATIC)
endif()
add_library(ballast::ballast ALIAS ballast)
foreach(room IN LISTS rooms)
  get_target_property(type ${room} TYPE)
  if(type STREQUAL "OBJECT_LIBRARY")
    target_sources(ballast PRIVATE $<TARGET_OBJECTS:${room}>)
  endif()
endforeach()
set_target_properties(ballast PROPERTIES LINKER_LANGUAGE CXX)
target_compile_features(ballast PUBLIC cxx_std_23)
target_include_directories(ballast INTERFACE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
                                             "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
target_link_libraries(ballast PUBLIC hwy::hwy OpenMP::OpenMP_CXX OpenBLAS::OpenBLAS PkgConfig::PCRE2
                                     PkgConfig::UTF8PROC PkgConfig::XXHASH PkgConfig::SENTENCEPIECE
                                     OpenSSL::SSL Threads::Threads)

install(TARGETS ballast EXPORT ballast ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
        LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/ballast" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        FILES_MATCHING PATTERN "*.h")
install(EXPORT ballast NAMESPACE ballast:: FILE ballast-targets.cmake
        DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/ballast")
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/ballast-config.cmake.in"
                              "${PROJECT_BINARY_DIR}/ballast-config.cmake"
                              INSTALL_DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/ballast")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/ballast-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/ballast-config.cmake" "${PROJECT_BINARY_DIR}/ballast-config-version.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/FindOpenBLAS.cmake"
        DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/ballast")
