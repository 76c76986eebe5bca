# Debian packages by CPack: one with the program, and one with the module for mpirun, which needs MPI.
# scripts/packages/build_deb.sh builds them; their dependencies are determined from the linked libraries.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME ballast)
set(CPACK_PACKAGE_VERSION "${PROJECT_VERSION}")
set(CPACK_PACKAGE_VENDOR ballast)
# Publishers of packages must set their own address here, so that reports reach them.
set(CPACK_PACKAGE_CONTACT "ballast developers <ballast@localhost>" CACHE STRING "Maintainer of the Debian packages")
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
                                                WORLD_EXECUTE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_PRE_BUILD_SCRIPTS "${PROJECT_SOURCE_DIR}/cmake/finish_package.cmake")

set(CPACK_COMPONENTS_ALL program)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME ballast)
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION "Measures the massive activations of language models, converts their weights to
INT4 to INT8 so that these survive, and evaluates, runs, serves and times the
result. Reads Hugging Face directories and GGUF files, writes its own format
and those of llama.cpp, vLLM, Transformers and MLX.")
# All of OpenBLAS's packages have a library with this name; the serial one is required, because ballast uses its own
# threads.
set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS libopenblas0-serial)
# oneDNN is loaded at run time, so the dependency cannot be determined from linked libraries.
if(BALLAST_ONEDNN)
  get_target_property(onednn DNNL::dnnl LOCATION)
  file(REAL_PATH "${onednn}" onednn)
  execute_process(COMMAND dpkg-query --search "${onednn}" OUTPUT_VARIABLE owner ERROR_QUIET)
  if(owner MATCHES "^([^:]+):")
    set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS "${CMAKE_MATCH_1}")
  endif()
endif()
if(BALLAST_HAS_MPI)
  list(APPEND CPACK_COMPONENTS_ALL mpi)
  set(CPACK_DEBIAN_MPI_PACKAGE_NAME ballast-mpi)
  set(CPACK_DEBIAN_MPI_PACKAGE_DEPENDS "ballast (= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS ballast-mpi)
  set(CPACK_COMPONENT_MPI_DESCRIPTION "What the program ballast loads when mpirun or Slurm started it: calibration,
conversion, evaluation and sweeps are then shared by processes on one machine
or on several.")
endif()
include(CPack)
