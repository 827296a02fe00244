// SPDX-License-Identifier: Apache-2.0
#include "turns.hpp"

#include <cuda_runtime.h>

#include <chrono>

#include "gpu/check.hpp"
#include "tessera/measure/statistics.hpp"

namespace tessera::bench {
namespace {

using gpu::ok;

std::vector<Timing> timings(std::vector<std::vector<double>> samples) {
  std::vector<Timing> all;
  for (auto& one : samples) {
    auto const s = summarize(std::move(one));
    all.push_back({s.median, s.p05, s.p95});
  }
  return all;
}

cudaGraphExec_t capture(Arena const& arena, Way const& way, int calls) {
  cudaGraph_t graph = nullptr;
  ok(cudaStreamBeginCapture(arena.stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < calls; ++i) way.call(i, arena.stream);
  ok(cudaStreamEndCapture(arena.stream, &graph));
  cudaGraphExec_t ready = nullptr;
  ok(cudaGraphInstantiate(&ready, graph, 0));
  ok(cudaGraphDestroy(graph));
  ok(cudaGraphUpload(ready, arena.stream));
  return ready;
}

}  // namespace

std::vector<Timing> time_graphs(Arena const& arena, std::vector<Way> const& ways, Turns const& turns) {
  cudaEvent_t before = nullptr, after = nullptr;
  ok(cudaEventCreate(&before));
  ok(cudaEventCreate(&after));
  std::vector<cudaGraphExec_t> graphs;
  for (auto const& way : ways) graphs.push_back(capture(arena, way, turns.calls));
  std::vector<std::vector<double>> samples(ways.size());
  for (int round = -1; round < turns.rounds; ++round)
    for (std::size_t w = 0; w < ways.size(); ++w) {
      // The replay is enqueued while the GPU is still busy: the host is never what is measured.
      if (turns.cold)
        arena.flush();
      else
        ok(cudaGraphLaunch(graphs[w], arena.stream));
      ok(cudaEventRecord(before, arena.stream));
      ok(cudaGraphLaunch(graphs[w], arena.stream));
      ok(cudaEventRecord(after, arena.stream));
      ok(cudaStreamSynchronize(arena.stream));
      float ms = 0;
      ok(cudaEventElapsedTime(&ms, before, after));
      if (round >= 0) samples[w].push_back(1e3 * ms / turns.calls);
    }
  for (auto const graph : graphs) ok(cudaGraphExecDestroy(graph));
  ok(cudaEventDestroy(before));
  ok(cudaEventDestroy(after));
  return timings(std::move(samples));
}

std::vector<Timing> time_calls(Arena const& arena, std::vector<Way> const& ways, Turns const& turns) {
  std::vector<std::vector<double>> samples(ways.size());
  for (int round = -1; round < turns.rounds; ++round)
    for (std::size_t w = 0; w < ways.size(); ++w) {
      if (turns.cold) arena.flush();
      ok(cudaStreamSynchronize(arena.stream));
      auto const begin = std::chrono::steady_clock::now();
      for (int i = 0; i < turns.calls; ++i) ways[w].call(i, arena.stream);
      ok(cudaStreamSynchronize(arena.stream));
      double const us =
          std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
      if (round >= 0) samples[w].push_back(us / turns.calls);
    }
  return timings(std::move(samples));
}

}  // namespace tessera::bench
