// SPDX-License-Identifier: Apache-2.0
// What programs that measure have around their measuring: CUDA calls that must succeed, the machine's part of
// a record, files, command lines and exit statuses.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "src/bench/record.hpp"
#include "src/gpu/hopper.hpp"

namespace tessera::bench {

/// Ends the program with 1 unless the call was right; says `what` failed.
inline void check(cudaError_t error, char const* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

/// JSON that a record begins with, from a file; {} without one.
inline std::string about(char const* path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str().empty() ? "{}" : text.str();
}

/// Measures, and writes what was measured to the file, if one is named. An exit status: 3 without a GPU to
/// run on, 1 for a file that cannot be written or an exception.
template <class Measure>
int measure_and_write(std::string const& json, Measure const& measure) {
  if (auto const why = gpu::why_no_hopper(); !why.empty()) {
    std::fputs(gpu::refusal_text(why).c_str(), stderr);
    return 3;
  }
  try {
    std::vector<Value> const values = measure();
    if (json.empty() || write_file(json, values_as_json(values))) return 0;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  return 1;
}

/// The same as a program's main(), with `--json <file>`. Exit status 2 for another command line.
template <class Measure>
int report_main(int argc, char** argv, char const* program, Measure const& measure) {
  std::string json;
  if (argc == 3 && std::strcmp(argv[1], "--json") == 0) json = argv[2];
  if (argc == 1 || !json.empty()) return measure_and_write(json, measure);
  std::fprintf(stderr, "usage: %s [--json <file>]\n", program);
  return 2;
}

}  // namespace tessera::bench
