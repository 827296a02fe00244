// SPDX-License-Identifier: Apache-2.0
// tessera-probe: the part of the command line that measures a GPU.
//
//     tessera-probe [--quick] [--only <experiment>]... [--output <file>]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <string>
#include <vector>

#include "measure/gpu/experiments.hpp"
#include "tessera/measure/probe_json.hpp"

int main(int count, char** words) {
  using namespace tessera;
  std::vector<std::string> only;
  std::string output;
  probe::Context context;
  for (int i = 1; i < count; ++i) {
    std::string const word = words[i];
    if (word == "--quick")
      context.quick = true;
    else if (word == "--only" && i + 1 < count)
      only.emplace_back(words[++i]);
    else if (word == "--output" && i + 1 < count)
      output = words[++i];
    else
      return std::fprintf(stderr,
                          "usage: tessera-probe [--quick] [--only <experiment>]... [--output <file>]\n"),
             2;
  }
  if (cudaGetDeviceProperties(&context.device, 0) != cudaSuccess ||
      cudaStreamCreateWithFlags(&context.stream, cudaStreamNonBlocking) != cudaSuccess)
    return std::fprintf(stderr, "no CUDA device\n"), 3;
  Probe result;
  result.quick = context.quick;
  try {
    for (auto const& experiment : probe::experiments()) {
      if (!only.empty() && std::find(only.begin(), only.end(), experiment.name) == only.end()) continue;
      auto const begin = std::chrono::steady_clock::now();
      std::size_t const figures = result.figures.size(), verdicts = result.verdicts.size();
      experiment.measure(context, result);
      double const seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      result.seconds += seconds;
      std::fprintf(stderr, "%-12s %6.1f s  %s\n", experiment.name.c_str(), seconds, experiment.what.c_str());
      for (std::size_t i = figures; i < result.figures.size(); ++i) {
        auto const& f = result.figures[i];
        std::string at;
        for (auto const& [name, value] : f.at)
          at += " " + name + "=" + std::to_string(static_cast<long long>(value));
        std::printf("%-36s %12.4g +- %-9.3g %-10s%s%s\n", f.id.c_str(), f.median, f.deviation, f.unit.c_str(),
                    at.c_str(), f.verified ? "" : " (not verified)");
      }
      for (std::size_t i = verdicts; i < result.verdicts.size(); ++i)
        std::printf("%-36s %s: %s\n", result.verdicts[i].id.c_str(), result.verdicts[i].answer.c_str(),
                    result.verdicts[i].note.c_str());
      // After each: what an experiment that fails leaves behind is not lost.
      if (!output.empty()) std::ofstream(output) << print_probe(result);
      std::fflush(stdout);
    }
  } catch (std::exception const& error) {
    return std::fprintf(stderr, "%s\n", error.what()), 1;
  }
  return 0;
}
