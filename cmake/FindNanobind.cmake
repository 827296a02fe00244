# nanobind, which binds C++ to Python: defines nanobind_add_module(), NANOBIND_FOUND. Call find_package(Python) first.
#
# Looked for in this order: the package of the Python that was found (where a build requirement was installed for this
# build), the wheel that scripts/install_dependencies unpacks to build/python/.
set(_nanobind_places ${CMAKE_CURRENT_LIST_DIR}/../build/python)
if(Python_EXECUTABLE)
  execute_process(COMMAND ${Python_EXECUTABLE} -c "import nanobind; print(nanobind.cmake_dir())"
    OUTPUT_VARIABLE _nanobind_imported OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
find_path(NANOBIND_CMAKE_DIR nanobind-config.cmake
  HINTS ${_nanobind_imported} ${_nanobind_places}/nanobind/cmake NO_DEFAULT_PATH)
mark_as_advanced(NANOBIND_CMAKE_DIR)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Nanobind REQUIRED_VARS NANOBIND_CMAKE_DIR)
if(NANOBIND_FOUND)
  include(${NANOBIND_CMAKE_DIR}/nanobind-config.cmake)
endif()
