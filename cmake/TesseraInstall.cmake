# Installs headers, libraries, the tool, and what find_package(tessera) and pkg-config need to find them.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_directory ${CMAKE_INSTALL_LIBDIR}/cmake/tessera)

get_property(modules GLOBAL PROPERTY TESSERA_MODULES)
set(targets tessera_sync tessera_cutlass tessera_all)
foreach(module ${modules})
  list(APPEND targets tessera_${module})
endforeach()
install(TARGETS ${targets} EXPORT tessera_targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(TARGET tessera)
  set_target_properties(tessera PROPERTIES EXPORT_NAME tool)
  install(TARGETS tessera EXPORT tessera_targets RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
# The programs beside the tool, which it starts; tessera-bench where it was built, by name.
foreach(program tessera-decode tessera-flow tessera-network tessera-gpu tessera-peers tessera-probe tessera-bench)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} OPTIONAL)
  endif()
endforeach()
# What runs and tunes plans on a GPU, where it is built: an export of its own, which find_package reads where there is
# CUDA. The tuner stands on the measuring library, whose headers are not installed.
set(gpu_targets "")
foreach(name run_gpu tune_gpu bench_library communicate_gpu)
  if(TARGET tessera_${name})
    set_target_properties(tessera_${name} PROPERTIES EXPORT_NAME ${name})
    list(APPEND gpu_targets tessera_${name})
  endif()
endforeach()
if(gpu_targets)
  install(TARGETS ${gpu_targets} EXPORT tessera_gpu_targets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT tessera_gpu_targets NAMESPACE tessera:: DESTINATION ${package_directory})
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tessera ${PROJECT_BINARY_DIR}/include/tessera
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

install(EXPORT tessera_targets NAMESPACE tessera:: DESTINATION ${package_directory})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/tesseraConfig.cmake.in
  ${PROJECT_BINARY_DIR}/tesseraConfig.cmake INSTALL_DESTINATION ${package_directory})
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tesseraConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tesseraConfig.cmake ${PROJECT_BINARY_DIR}/tesseraConfigVersion.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindCUTLASS.cmake
  DESTINATION ${package_directory})

# The archives in link order: a module before those that it uses.
set(pkgconfig_libraries "")
foreach(module ${modules})
  string(PREPEND pkgconfig_libraries "-ltessera_${module} ")
endforeach()
file(RELATIVE_PATH prefix_from_pkgconfig /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
string(REGEX REPLACE "/$" "" prefix_from_pkgconfig ${prefix_from_pkgconfig})
foreach(name tessera tessera-sync)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/${name}.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
