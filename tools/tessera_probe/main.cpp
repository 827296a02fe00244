// SPDX-License-Identifier: Apache-2.0
// tessera-probe: the part of the command line that measures a GPU.
//
//     tessera-probe [--quick] [--only <experiment>]... [--output <file>] [--commit <hash>] [--silent]
//
// Progress goes to standard error, figures to standard output unless --silent, the probe as JSON to the file.
// Exit codes are tessera's; 1: an experiment failed, and the file has the others'.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "files/partial_files.hpp"
#include "files/whole_files.hpp"
#include "gpu/hopper.hpp"
#include "kernels/reduction/probe/experiments.hpp"
#include "measure/gpu/experiments.hpp"
#include "measure/gpu/pitfalls.hpp"
#include "measure/gpu/processes.hpp"
#include "src/bench/record.hpp"
#include "tessera/measure/probe_json.hpp"

namespace {

using namespace tessera;

enum Exit { ok = 0, failed = 1, usage = 2, environment = 3 };

struct Arguments {
  bool quick = false, silent = false;
  std::vector<std::string> only;
  std::string output, commit;
};

int refuse(std::string const& code, std::string const& message, int exit) {
  std::fprintf(stderr, "error %s: %s\n   more: tessera explain %s\n", code.c_str(), message.c_str(),
               code.c_str());
  return exit;
}

bool wanted(Arguments const& arguments, std::string const& name) {
  // Which machine this is belongs to every probe.
  return arguments.only.empty() || name == "identity" ||
         std::find(arguments.only.begin(), arguments.only.end(), name) != arguments.only.end();
}

/// More digits than a measurement has only make files long.
double rounded(double value) { return bench::with_digits(value, 6); }

void round(Probe& probe) {
  for (auto& f : probe.figures)
    for (double* value : {&f.median, &f.deviation, &f.p05, &f.p95}) *value = rounded(*value);
  for (auto& model : probe.tau)
    for (auto* list : {&model.samples, &model.kept_back})
      for (auto& sample : *list) sample.ns = rounded(sample.ns);
  auto& who = probe.identity;
  for (double* value :
       {&who.sm_clock_ghz, &who.highest_sm_ghz, &who.memory_clock_ghz, &who.power_limit_w, &probe.seconds})
    *value = rounded(*value);
}

void show(Probe const& probe, std::size_t figures, std::size_t verdicts) {
  for (std::size_t i = figures; i < probe.figures.size(); ++i) {
    auto const& f = probe.figures[i];
    std::string at;
    for (auto const& [name, value] : f.at)
      at += " " + name + "=" + std::to_string(static_cast<long long>(value));
    std::printf("%-36s %12.4g +- %-9.3g %-10s%s%s\n", f.id.c_str(), f.median, f.deviation, f.unit.c_str(),
                at.c_str(), f.verified ? "" : " (not verified)");
  }
  for (std::size_t i = verdicts; i < probe.verdicts.size(); ++i)
    std::printf("%-36s %s: %s\n", probe.verdicts[i].id.c_str(), probe.verdicts[i].answer.c_str(),
                probe.verdicts[i].note.c_str());
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** words) {
  // How measure_processes and measure_pitfalls run this program again.
  if (count == 2 && std::string(words[1]) == "--launches") return probe::print_launches();
  if (count == 3 && std::string(words[1]) == "--pitfall") return probe::run_pitfall(words[2]);
  files::remove_partial_files_on_signals();
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    std::string const word = words[i];
    bool const value = i + 1 < count;
    if (word == "--quick")
      arguments.quick = true;
    else if (word == "--silent")
      arguments.silent = true;
    else if (word == "--only" && value)
      arguments.only.emplace_back(words[++i]);
    else if (word == "--output" && value)
      arguments.output = words[++i];
    else if (word == "--commit" && value)
      arguments.commit = words[++i];
    else
      return refuse(
          "E0908",
          "usage: tessera-probe [--quick] [--only <experiment>]... [--output <file>] [--commit <hash>] "
          "[--silent]",
          usage);
  }
  auto const all = probe::experiments(probe::reduction_experiments());
  for (auto const& name : arguments.only)
    if (std::none_of(all.begin(), all.end(), [&](auto const& one) { return one.name == name; })) {
      std::string names;
      for (auto const& one : all) names += (names.empty() ? "" : ", ") + one.name;
      return refuse("E0908", "there is no experiment \"" + name + "\"\n   experiments: " + names, usage);
    }
  probe::Context context;
  context.quick = arguments.quick;
  if (auto const why = gpu::why_no_hopper(); !why.empty()) return refuse("E0933", why, environment);
  cudaGetDeviceProperties(&context.device, 0);
  if (cudaStreamCreateWithFlags(&context.stream, cudaStreamNonBlocking) != cudaSuccess)
    return refuse("E0933", "the GPU gives no stream", environment);
  Probe result;
  result.quick = arguments.quick;
  result.identity.commit = arguments.commit;
  int answer = ok;
  std::size_t number = 0;
  for (auto const& experiment : all) {
    ++number;
    if (!wanted(arguments, experiment.name)) continue;
    std::fprintf(stderr, "%2zu of %zu  %-12s %s", number, all.size(), experiment.name.c_str(),
                 experiment.what.c_str());
    std::fflush(stderr);
    auto const begin = std::chrono::steady_clock::now();
    std::size_t const figures = result.figures.size(), verdicts = result.verdicts.size();
    std::string error;
    try {
      experiment.measure(context, result);
      if (auto const status = cudaDeviceSynchronize(); status != cudaSuccess)
        error = cudaGetErrorString(status);
    } catch (std::exception const& thrown) {
      error = thrown.what();
    }
    double const seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    result.seconds += seconds;
    std::fprintf(stderr, ": %.1f s%s%s\n", seconds, error.empty() ? "" : ", FAILED: ", error.c_str());
    if (!error.empty()) {
      answer = failed;
      result.verdicts.push_back({"experiment." + experiment.name, experiment.what, "did not hold", error});
    }
    round(result);
    if (!arguments.silent) show(result, figures, verdicts);
    // After each: what an experiment that fails leaves behind is not lost.
    if (!arguments.output.empty())
      if (auto const written = files::write_whole({{arguments.output, print_probe(result)}}); !written)
        return refuse("E0902", written.error().front().message, environment);
    if (!error.empty() && cudaDeviceSynchronize() != cudaSuccess) {
      std::fprintf(stderr, "the GPU's context is lost: the other experiments are not run\n");
      break;
    }
  }
  return answer;
}
