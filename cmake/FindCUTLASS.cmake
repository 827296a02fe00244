# CUTLASS's headers: CUTLASS::CUTLASS, CUTLASS_FOUND, CUTLASS_INCLUDE_DIR, CUTLASS_UTIL_INCLUDE_DIR.
#
# Looked for in this order: CUTLASS_DIR (a checkout of CUTLASS 4, with include/ and tools/util/include/), the
# wheel that scripts/install_dependencies unpacks to build/cutlass/, the system.
set(CUTLASS_DIR "" CACHE PATH "Root of a CUTLASS 4 checkout; empty: build/cutlass, then the system")
set(_cutlass_places)
if(CUTLASS_DIR)
  list(APPEND _cutlass_places ${CUTLASS_DIR})
endif()
list(APPEND _cutlass_places ${CMAKE_CURRENT_LIST_DIR}/../build/cutlass/cutlass_library/source)

find_path(CUTLASS_INCLUDE_DIR cutlass/gemm/kernel/gemm_universal.hpp
  HINTS ${_cutlass_places} PATH_SUFFIXES include)
find_path(CUTLASS_UTIL_INCLUDE_DIR cutlass/util/packed_stride.hpp
  HINTS ${_cutlass_places} PATH_SUFFIXES tools/util/include include)
mark_as_advanced(CUTLASS_INCLUDE_DIR CUTLASS_UTIL_INCLUDE_DIR)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CUTLASS REQUIRED_VARS CUTLASS_INCLUDE_DIR CUTLASS_UTIL_INCLUDE_DIR)
if(CUTLASS_FOUND AND NOT TARGET CUTLASS::CUTLASS)
  add_library(CUTLASS::CUTLASS INTERFACE IMPORTED)
  target_include_directories(CUTLASS::CUTLASS INTERFACE ${CUTLASS_INCLUDE_DIR} ${CUTLASS_UTIL_INCLUDE_DIR})
endif()
