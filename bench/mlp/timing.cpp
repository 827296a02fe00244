// SPDX-License-Identifier: Apache-2.0
#include "bench/mlp/timing.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <thread>

namespace tessera::bench {

void check(cudaError_t error, char const* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

double median(std::vector<double> samples) {
  if (samples.empty()) return std::numeric_limits<double>::infinity();
  auto const middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

Timer::Timer(cudaStream_t stream, int sets, int per_graph)
    : stream_(stream), sets_(sets), per_graph_(per_graph), events_(512) {
  for (auto& event : events_) check(cudaEventCreate(&event), "cudaEventCreate");
}

Timer::~Timer() {
  for (auto const event : events_) cudaEventDestroy(event);
}

bool Timer::capture(Variant& variant) const {
  cudaGraph_t graph = nullptr;
  check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  bool ok = true;
  for (int i = 0; i < per_graph_ && ok; ++i) ok = variant.work(stream_, i % sets_) == cudaSuccess;
  ok = cudaStreamEndCapture(stream_, &graph) == cudaSuccess && ok;
  if (ok) ok = cudaGraphInstantiate(&variant.graph, graph, 0) == cudaSuccess;
  if (graph != nullptr) cudaGraphDestroy(graph);
  if (!ok) {
    variant.graph = nullptr;
    cudaGetLastError();
  }
  return ok;
}

void Timer::release(Variant& variant) const {
  if (variant.graph != nullptr) cudaGraphExecDestroy(variant.graph);
  variant.graph = nullptr;
}

void Timer::rounds(std::vector<Variant*> const& variants, int count, double rest) {
  for (int round = 0; round < count; ++round) {
    for (std::size_t i = 0; i < variants.size(); ++i) {
      // Each round begins with another variant, so that none always follows the same one.
      Variant& variant = *variants[(i + static_cast<std::size_t>(round)) % variants.size()];
      cudaEvent_t const begin = events_[2 * i];
      cudaEvent_t const end = events_[2 * i + 1];
      check(cudaGraphLaunch(variant.graph, stream_), "cudaGraphLaunch");
      check(cudaEventRecord(begin, stream_), "cudaEventRecord");
      check(cudaGraphLaunch(variant.graph, stream_), "cudaGraphLaunch");
      check(cudaEventRecord(end, stream_), "cudaEventRecord");
      if (rest > 0) {
        check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
        float milliseconds = 0;
        check(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
        std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(2 * rest * milliseconds));
      }
    }
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    for (std::size_t i = 0; i < variants.size(); ++i) {
      float milliseconds = 0;
      check(cudaEventElapsedTime(&milliseconds, events_[2 * i], events_[2 * i + 1]), "cudaEventElapsedTime");
      variants[(i + static_cast<std::size_t>(round)) % variants.size()]->samples.push_back(
          1000.0 * milliseconds / per_graph_);
    }
  }
}

double Timer::quick(Variant& variant, int samples) {
  if (!capture(variant)) return std::numeric_limits<double>::infinity();
  rounds({&variant}, samples);
  release(variant);
  double const result = median(variant.samples);
  variant.samples.clear();
  return result;
}

}  // namespace tessera::bench
