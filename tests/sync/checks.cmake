# The device library as a kernel author compiles it, where there is a CUDA toolkit; no GPU is needed.
if(TESSERA_HAS_CUDA)
  add_library(sync_kernels OBJECT ${CMAKE_CURRENT_LIST_DIR}/kernels.cu)
  target_link_libraries(sync_kernels PRIVATE tessera::sync)
  target_include_directories(sync_kernels PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_options(sync_kernels PRIVATE -Werror=all-warnings)
  set_target_properties(sync_kernels PROPERTIES CUDA_STANDARD 17 CUDA_ARCHITECTURES "80-real;90a-real;100-real;120-real")

  find_package(CUDAToolkit QUIET)
  if(TARGET CUDA::nvrtc)
    add_executable(nvrtc_compile ${CMAKE_CURRENT_LIST_DIR}/nvrtc_compile.cpp)
    target_link_libraries(nvrtc_compile PRIVATE CUDA::nvrtc)
    add_test(NAME sync.nvrtc
      COMMAND nvrtc_compile ${CMAKE_CURRENT_LIST_DIR}/kernels.cu ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/tests)
    set_tests_properties(sync.nvrtc PROPERTIES LABELS compile)
  endif()

  # A kernel without a watch must not pay for one: its machine code has no timer in it.
  add_test(NAME sync.watch_off_has_no_timer
    COMMAND ${CMAKE_CURRENT_LIST_DIR}/watch_off ${CMAKE_CUDA_COMPILER} ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/tests)
endif()

# The same by clang, which checks more than nvcc does; no toolkit is needed. sm_90 is the last that clang 16 knows.
find_program(TESSERA_CLANG NAMES clang++-16 clang++)
if(TESSERA_CLANG)
  foreach(architecture sm_80 sm_90)
    add_test(NAME sync.clang_${architecture}
      COMMAND ${TESSERA_CLANG} -x cuda --cuda-device-only --cuda-gpu-arch=${architecture} -nocudainc -nocudalib -std=c++17
        -Wall -Wextra -Werror -Wno-unknown-cuda-version -include ${CMAKE_CURRENT_LIST_DIR}/clang_builtins.cuh
        -I${PROJECT_SOURCE_DIR}/include -I${PROJECT_SOURCE_DIR}/tests -S -o ${CMAKE_CURRENT_BINARY_DIR}/sync_${architecture}.ptx
        ${CMAKE_CURRENT_LIST_DIR}/kernels.cu)
  endforeach()
endif()

# Time, beside the line budget of tests/headers: what the one include adds to an empty file.
add_test(NAME sync.compile_time
  COMMAND ${CMAKE_CURRENT_LIST_DIR}/compile_time ${CMAKE_CXX_COMPILER} ${PROJECT_SOURCE_DIR}/include)
set_tests_properties(sync.compile_time PROPERTIES RUN_SERIAL TRUE)
