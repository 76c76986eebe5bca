# BALLAST_MPI: jobs shared by ranks. MPI stays in libballast_mpi.so, which the program loads if mpirun started it.
set(BALLAST_MPI AUTO CACHE STRING "Share jobs between MPI ranks: ON, OFF, or AUTO where MPI is found")
set_property(CACHE BALLAST_MPI PROPERTY STRINGS AUTO ON OFF)

include(GNUInstallDirs)
# The path from the folder of the installed program to that of libraries, whose subfolder "ballast" has the modules that
# are loaded at run time.
file(RELATIVE_PATH libraries "${CMAKE_INSTALL_FULL_BINDIR}" "${CMAKE_INSTALL_FULL_LIBDIR}")
set_property(SOURCE "${PROJECT_SOURCE_DIR}/jobs/ranks.cc"
             APPEND PROPERTY COMPILE_DEFINITIONS "BALLAST_MODULES=\"${libraries}/ballast\"")

set(BALLAST_HAS_MPI OFF)
if(BALLAST_MPI)
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI QUIET COMPONENTS CXX)
  set(BALLAST_HAS_MPI ${MPI_CXX_FOUND})
  if(NOT BALLAST_HAS_MPI AND NOT BALLAST_MPI STREQUAL "AUTO")
    ballast_missing("MPI (or -DBALLAST_MPI=OFF)" libopenmpi-dev "")
  endif()
endif()

if(BALLAST_HAS_MPI)
  add_library(ballast_mpi MODULE "${PROJECT_SOURCE_DIR}/jobs/mpi/mpi_ranks.cc")
  ballast_warnings(ballast_mpi)
  target_compile_definitions(ballast_mpi PRIVATE BALLAST_VERSION="${PROJECT_VERSION}")
  # Only headers are used: the module must not contain a second copy of the program's code.
  target_include_directories(ballast_mpi PRIVATE $<TARGET_PROPERTY:ballast_jobs,INTERFACE_INCLUDE_DIRECTORIES>)
  target_link_libraries(ballast_mpi PRIVATE MPI::MPI_CXX)
  set_target_properties(ballast_mpi PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}")
  install(TARGETS ballast_mpi LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/ballast" COMPONENT mpi)
endif()
message(STATUS "Jobs under mpirun: ${BALLAST_HAS_MPI}")
