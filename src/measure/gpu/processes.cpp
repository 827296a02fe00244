// SPDX-License-Identifier: Apache-2.0
// What an ordinary launch takes is the same to a per cent within a process, and differs by steps of a tenth
// from one process to the next, whatever the stream. So one process does not tell.
#include "measure/gpu/processes.hpp"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <sstream>

#include "measure/gpu/list.hpp"
#include "measure/gpu/methods/child.hpp"
#include "measure/gpu/methods/device.hpp"
#include "tessera/measure/statistics.hpp"

namespace tessera::probe {
namespace {

/// Those in which the stream's own machinery, not a graph's, starts a kernel.
constexpr char const* k_ids[] = {"kernel.launch",      "kernel.gap.stream",    "kernel.gap.event",
                                 "kernel.first_block", "kernel.stream_start",  "kernel.gap.wait_kernel",
                                 "kernel.gap.pdl",     "kernel.grid_wait_last"};

/// The first one with a block on every SM: with the trigger at the start, where there is a trigger.
Figure* find(Probe& probe, char const* id, int sms) {
  auto const found = std::find_if(probe.figures.begin(), probe.figures.end(), [&](Figure const& f) {
    auto const blocks = f.at.find("blocks");
    return f.id == id && blocks != f.at.end() && blocks->second == sms;
  });
  return found == probe.figures.end() ? nullptr : &*found;
}

/// Of one process; empty if it failed.
std::map<std::string, double> launches_of_a_process() {
  auto const child = run_again({"--launches"}, 20, 20);
  std::map<std::string, double> values;
  if (child.exit_status != 0) return values;
  std::istringstream lines(child.output);
  std::string id;
  for (double ns = 0; lines >> id >> ns;) values[id] = ns;
  return values;
}

}  // namespace

void measure_processes(Context const& context, Probe& probe) {
  std::map<std::string, std::vector<double>> samples;
  for (auto const* const id : k_ids)
    if (auto const* const here = find(probe, id, context.device.multiProcessorCount))
      samples[id].push_back(here->median);
  if (samples.empty()) return;
  for (int i = 0; i < (context.quick ? 3 : 14); ++i)
    for (auto const& [id, ns] : launches_of_a_process())
      if (samples.count(id) > 0) samples[id].push_back(ns);
  for (auto const& [id, ns] : samples) {
    auto* const figure = find(probe, id.c_str(), context.device.multiProcessorCount);
    auto const all = summarize(ns);
    figure->median = all.median;
    figure->deviation = all.deviation;
    figure->p05 = all.p05;
    figure->p95 = all.p95;
    figure->valid += "; median and spread over " + std::to_string(ns.size()) +
                     " processes, within each of which it is the same to some per cent";
  }
}

int print_launches() {
  try {
    Context context;
    context.quick = true;
    ok(cudaGetDeviceProperties(&context.device, 0));
    ok(cudaStreamCreateWithFlags(&context.stream, cudaStreamNonBlocking));
    Probe probe;
    measure_launch(context, probe);
    measure_gap(context, probe);
    for (auto const* const id : k_ids)
      if (auto const* const figure = find(probe, id, context.device.multiProcessorCount))
        std::printf("%s\t%.6g\n", id, figure->median);
    return 0;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

}  // namespace tessera::probe
