// SPDX-License-Identifier: Apache-2.0
// Compiles kernels.cu with NVRTC, which needs no GPU: nvrtc_compile <kernels.cu> <include folder>...
#include <nvrtc.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  std::ostringstream source;
  source << std::ifstream(argv[1]).rdbuf();
  // The last as a user's first try: without any option but where headers are.
  for (std::string const architecture : {"sm_80", "sm_90a", "sm_100", "sm_120", ""}) {
    std::vector<std::string> options;
    if (!architecture.empty()) options = {"--std=c++17", "--gpu-architecture=" + architecture};
    for (int i = 2; i < argc; ++i) options.push_back("-I" + std::string(argv[i]));
    std::vector<char const*> pointers;
    for (auto const& option : options) pointers.push_back(option.c_str());

    nvrtcProgram program{};
    nvrtcCreateProgram(&program, source.str().c_str(), "kernels.cu", 0, nullptr, nullptr);
    auto const result = nvrtcCompileProgram(program, static_cast<int>(pointers.size()), pointers.data());
    std::size_t size = 0;
    nvrtcGetProgramLogSize(program, &size);
    std::string log(size, '\0');
    nvrtcGetProgramLog(program, log.data());
    nvrtcDestroyProgram(&program);
    std::printf("%s: %s\n%s\n", architecture.empty() ? "no options" : architecture.c_str(),
                nvrtcGetErrorString(result), log.c_str());
    // A warning is a failure too: users see it in their own builds.
    if (result != NVRTC_SUCCESS || log.find("warning") != std::string::npos) return 1;
  }
  return 0;
}
