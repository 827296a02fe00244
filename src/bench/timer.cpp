// SPDX-License-Identifier: Apache-2.0
#include "timer.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>

#include "tessera/measure/statistics.hpp"

namespace tessera::bench {
namespace {

constexpr int most_warm_ups = 16;

}  // namespace

void level(std::vector<Timed*> const& all, std::vector<double> Timed::*samples) {
  std::size_t const rounds = all.empty() ? 0 : (all.front()->*samples).size();
  std::vector<double> usual;
  for (auto const* const one : all) usual.push_back(median(one->*samples));
  for (std::size_t round = 0; round < rounds; ++round) {
    std::vector<double> slower;
    for (std::size_t i = 0; i < all.size(); ++i) slower.push_back((all[i]->*samples)[round] / usual[i]);
    double const factor = median(slower);
    for (auto* const one : all) (one->*samples)[round] /= factor;
  }
}

Timer::Timer(cudaStream_t stream, int sets, int per_graph)
    : stream_(stream), sets_(sets), per_graph_(per_graph) {}

Timer::~Timer() {
  for (auto const event : events_) cudaEventDestroy(event);
}

bool Timer::capture(Timed& timed) {
  if (error_ != cudaSuccess) return false;
  cudaGraph_t graph = nullptr;
  keep(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  if (error_ != cudaSuccess) return false;
  bool right = true;
  for (int i = 0; i < per_graph_ && right; ++i) right = timed.work(stream_, i % sets_) == cudaSuccess;
  right = cudaStreamEndCapture(stream_, &graph) == cudaSuccess && right;
  if (right) right = cudaGraphInstantiate(&timed.graph, graph, 0) == cudaSuccess;
  if (graph != nullptr) cudaGraphDestroy(graph);
  if (!right) {
    timed.graph = nullptr;
    (void)cudaGetLastError();
  }
  return right;
}

void Timer::release(Timed& timed) {
  if (timed.graph != nullptr) cudaGraphExecDestroy(timed.graph);
  timed.graph = nullptr;
}

std::vector<Timed*> Timer::shuffled(std::vector<Timed*> all) {
  std::shuffle(all.begin(), all.end(), random_);
  return all;
}

void Timer::enqueue(Timed const& timed, std::size_t place, double warm_us) {
  while (error_ == cudaSuccess && events_.size() < 2 * place + 2) {
    cudaEvent_t event = nullptr;
    keep(cudaEventCreate(&event));
    if (event != nullptr) events_.push_back(event);
  }
  if (error_ != cudaSuccess) return;
  double const one = timed.last_us > 0 ? timed.last_us * per_graph_ : warm_us;
  int const warm = std::clamp(static_cast<int>(std::ceil(warm_us / (one + 1))), 1, most_warm_ups);
  for (int i = 0; i < warm; ++i) keep(cudaGraphLaunch(timed.graph, stream_));
  keep(cudaEventRecord(events_[2 * place], stream_));
  keep(cudaGraphLaunch(timed.graph, stream_));
  keep(cudaEventRecord(events_[2 * place + 1], stream_));
}

// A kernel that spins for ever would keep cudaStreamSynchronize for ever.
void Timer::wait(std::size_t places) {
  auto begin = std::chrono::steady_clock::now();
  std::size_t reached = 0;
  while (error_ == cudaSuccess) {
    auto const state = cudaStreamQuery(stream_);
    if (state != cudaErrorNotReady) return keep(state);
    // A round may take long; what counts is that it goes on.
    for (; reached < 2 * places && cudaEventQuery(events_[reached]) == cudaSuccess; ++reached)
      begin = std::chrono::steady_clock::now();
    std::chrono::duration<double> const waited = std::chrono::steady_clock::now() - begin;
    if (waited.count() > longest_wait_s) return keep(cudaErrorLaunchTimeout);
    // The first millisecond is for what is nearly done.
    if (waited.count() < 1e-3)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

double Timer::elapsed(std::size_t place) {
  float milliseconds = 0;
  if (error_ == cudaSuccess)
    keep(cudaEventElapsedTime(&milliseconds, events_[2 * place], events_[2 * place + 1]));
  return 1000.0 * milliseconds / per_graph_;
}

void Timer::hot_rounds(std::vector<Timed*> const& all, int count, double warm_us) {
  for (int round = 0; round < count && error_ == cudaSuccess; ++round) {
    auto const order = shuffled(all);
    for (std::size_t i = 0; i < order.size(); ++i) enqueue(*order[i], i, warm_us);
    wait(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i]->hot.push_back(order[i]->last_us = elapsed(i));
  }
}

void Timer::cool_rounds(std::vector<Timed*> const& all, int count, double rest) {
  for (int round = 0; round < count && error_ == cudaSuccess; ++round)
    for (auto* const timed : shuffled(all)) {
      if (error_ != cudaSuccess) return;
      enqueue(*timed, 0);
      wait(1);
      double const us = elapsed(0);
      timed->cool.push_back(us);
      std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(2 * rest * us * per_graph_));
    }
}

double Timer::quick(std::function<cudaError_t(cudaStream_t, int set)> const& work, int samples) {
  Timed timed{work};
  if (!capture(timed)) return std::numeric_limits<double>::infinity();
  hot_rounds({&timed}, samples);
  release(timed);
  return error_ == cudaSuccess ? median(timed.hot) : std::numeric_limits<double>::infinity();
}

}  // namespace tessera::bench
