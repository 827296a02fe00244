// SPDX-License-Identifier: Apache-2.0
#include "turns.hpp"

#include <cuda_runtime.h>

#include <chrono>
#include <deque>

#include "gpu/graph.hpp"
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

}  // namespace

std::vector<Timing> time_graphs(Arena const& arena, std::vector<Way> const& ways, Turns const& turns) {
  std::deque<gpu::Graph> graphs;
  for (auto const& way : ways)
    graphs.emplace_back(arena.stream, [&] {
      for (int i = 0; i < turns.calls; ++i) way.call(i, arena.stream);
    });
  gpu::EventTimer timer;
  std::vector<std::vector<double>> samples(ways.size());
  for (int round = -1; round < turns.rounds; ++round)
    for (std::size_t w = 0; w < ways.size(); ++w) {
      // The replay is enqueued while the GPU is still busy: the host is never what is measured.
      if (turns.cold)
        arena.flush();
      else
        graphs[w].replay(arena.stream);
      double const ns = graphs[w].ns(arena.stream, timer);
      if (round >= 0) samples[w].push_back(ns / 1e3 / turns.calls);
    }
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
