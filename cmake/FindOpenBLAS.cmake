# OpenBLAS::OpenBLAS: LAPACK's Fortran symbols. Debian has a separate folder for each kind of threading, and
# "alternatives" selects one; the serial one is preferred, because ballast's own threads divide the work.
find_library(OpenBLAS_LIBRARY openblas PATH_SUFFIXES openblas-serial)
mark_as_advanced(OpenBLAS_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OpenBLAS REQUIRED_VARS OpenBLAS_LIBRARY)

if(OpenBLAS_FOUND AND NOT TARGET OpenBLAS::OpenBLAS)
  add_library(OpenBLAS::OpenBLAS UNKNOWN IMPORTED)
  set_target_properties(OpenBLAS::OpenBLAS PROPERTIES IMPORTED_LOCATION "${OpenBLAS_LIBRARY}")
endif()
