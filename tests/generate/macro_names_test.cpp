// SPDX-License-Identifier: Apache-2.0
// Names that are macros where a generated header is compiled: asked of the compilers themselves.
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "generate/examples.hpp"
#include "generate/names.hpp"
#include "tessera/generate/generate.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr char const* k_host_headers[] = {"tessera/sync.cuh",
                                          "algorithm",
                                          "array",
                                          "atomic",
                                          "cassert",
                                          "cctype",
                                          "cerrno",
                                          "cfenv",
                                          "cfloat",
                                          "chrono",
                                          "cinttypes",
                                          "climits",
                                          "clocale",
                                          "cmath",
                                          "complex",
                                          "csetjmp",
                                          "csignal",
                                          "cstdarg",
                                          "cstddef",
                                          "cstdint",
                                          "cstdio",
                                          "cstdlib",
                                          "cstring",
                                          "ctime",
                                          "cwchar",
                                          "cwctype",
                                          "fstream",
                                          "functional",
                                          "future",
                                          "iostream",
                                          "map",
                                          "memory",
                                          "mutex",
                                          "random",
                                          "string",
                                          "thread",
                                          "unistd.h",
                                          "vector"};
// Those that a CUDA source has beside; one that this toolkit lacks is left out.
constexpr char const* k_cuda_headers[] = {"cooperative_groups.h",
                                          "cub/cub.cuh",
                                          "cublasLt.h",
                                          "cublas_v2.h",
                                          "cuda.h",
                                          "cuda/barrier",
                                          "cuda_bf16.h",
                                          "cuda_fp16.h",
                                          "cuda_fp8.h",
                                          "cuda_pipeline.h",
                                          "cuda_runtime.h",
                                          "curand.h",
                                          "cutensor.h",
                                          "cuda/std/complex",
                                          "mma.h",
                                          "nccl.h",
                                          "nvrtc.h",
                                          "thrust/pair.h"};

/// Every macro that `compiler` has after these headers, but for reserved names, which are refused by their
/// form.
std::set<std::string> macros_of(std::string const& compiler, std::string const& ending, bool cuda) {
  auto const folder = fs::temp_directory_path() / ("tessera-macros-" + std::to_string(getpid()));
  fs::create_directories(folder);
  auto const source = folder / ("all" + ending), list = folder / "list";
  {
    std::ofstream text(source);
    for (auto const* header : k_host_headers) text << "#include <" << header << ">\n";
    for (auto const* header : k_cuda_headers)
      if (cuda) text << "#if __has_include(<" << header << ">)\n#include <" << header << ">\n#endif\n";
  }
  auto const command = compiler + " -E " + (cuda ? "-arch=sm_90a -Xcompiler " : "") + "-dM -I '" +
                       TESSERA_SOURCE_DIR "/include' '" + source.string() + "' -o '" + list.string() + "'";
  std::set<std::string> macros;
  if (std::system(command.c_str()) == 0) {
    std::ifstream lines(list);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string define, name;
      words >> define >> name;
      name = name.substr(0, name.find('('));
      if (define == "#define" && name.front() != '_' && name.find("__") == std::string::npos)
        macros.insert(name);
    }
  }
  fs::remove_all(folder);
  return macros;
}

std::string allowed_of(std::set<std::string> const& macros) {
  std::string allowed;
  for (auto const& name : macros)
    if (generate::is_identifier(name)) allowed += " " + name;
  return allowed;
}

TEST(MacroNames, OfTheHostCompilerAreNoNames) {
  auto const macros = macros_of("'" TESSERA_COMPILER "' -std=gnu++20", ".cpp", false);
  ASSERT_TRUE(macros.count("EOF") == 1 && macros.count("INT_MAX") == 1) << macros.size();
  EXPECT_EQ(allowed_of(macros), "") << "add them, or their family, to src/generate/macro_names.cpp";
}

TEST(MacroNames, OfTheCudaCompilerAreNoNames) {
#ifdef TESSERA_CUDA_COMPILER
  auto const macros = macros_of("'" TESSERA_CUDA_COMPILER "'", ".cu", true);
  ASSERT_TRUE(macros.count("EOF") == 1 && macros.count("cudaStreamPerThread") == 1) << macros.size();
  EXPECT_EQ(allowed_of(macros), "") << "add them, or their family, to src/generate/macro_names.cpp";
#else
  GTEST_SKIP() << "no nvcc";
#endif
}

TEST(MacroNames, AreRefusedByTheirReason) {
  auto plan = examples::attention();
  plan.pipeline.stages[0].name = "M_PI";
  plan.pipeline.stages[0].where = {"a.cpp", 7};
  auto const header = generate_header(plan);
  ASSERT_FALSE(header);
  EXPECT_EQ(
      to_text(Diagnostics{header.error().front()}),
      "a.cpp:7: error E0401: stage name \"M_PI\" is a macro of the compiler's, CUDA's or the C library's "
      "headers\n   hint: give it another name: no namespace keeps a macro out");
}

TEST(MacroNames, OfAnyLengthAreAnswered) {
  auto plan = examples::attention();
  plan.pipeline.name = "cudaA" + std::string(1 << 20, '_') + "NVTX_" + std::string(1 << 20, 'a');
  EXPECT_TRUE(generate_header(plan).has_value());
}

TEST(MacroNames, LeaveUsualNamesAlone) {
  for (auto const* name :
       {"gemm1",    "QK",        "softmax",   "PV",         "EXP",      "SIGMOID",     "ROW_MAX",   "QK_MAX",
        "MAX_POOL", "M_tile",    "M_E_tile",  "INT8_gemm",  "FP8_gemm", "FP_GEMM",     "O_PROJ",    "W_O",
        "SA_QK",    "SYSTOLIC",  "CLOCK",     "cuda_gemm",  "cublas",   "cublas_gemm", "cutlass_1", "E",
        "EXPERTS",  "ENCODER",   "EPILOGUE",  "MOD",        "NV",       "M",           "N",         "K",
        "PRIOR",    "REG_TOKEN", "TIME",      "S_IN",       "F_IN",     "current",     "cumsum",    "M_PIPE",
        "NULLS",    "INT8_MAX_", "DBLBUFFER", "STAGE_INIT", "PRINT",    "SCNorm"})
    EXPECT_TRUE(generate::is_identifier(name)) << name;
}

}  // namespace
}  // namespace tessera
