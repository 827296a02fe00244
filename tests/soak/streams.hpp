// SPDX-License-Identifier: Apache-2.0
// Streams of threads that take turns, and device memory that frees itself.
#pragma once

#include <algorithm>
#include <vector>

#include "soak/must.hpp"

namespace tessera::soak {

struct Free {
  void operator()(void* p) const { cudaFree(p); }
};
template <class T>
using OnDevice = std::unique_ptr<T, Free>;

/// Zeroed.
template <class T>
OnDevice<T> on_device(std::size_t count) {
  void* p = nullptr;
  auto const bytes = std::max<std::size_t>(count, 1) * sizeof(T);
  must(cudaMalloc(&p, bytes), "cudaMalloc");
  OnDevice<T> owner(static_cast<T*>(p));
  must(cudaMemset(p, 0, bytes), "cudaMemset");
  // The legacy stream does not hold up others.
  must(cudaStreamSynchronize(cudaStreamLegacy), "cudaMemset");
  return owner;
}
template <class T>
OnDevice<T> copied(std::vector<T> const& values) {
  auto result = on_device<T>(values.size());
  must(cudaMemcpy(result.get(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice),
       "cudaMemcpy");
  return result;
}

/// A stream for each thread. What is enqueued in a turn comes behind what was enqueued in the turn before.
class TurnStreams {
 public:
  /// The first has a priority by this number, the next ones the priorities behind it.
  explicit TurnStreams(std::uint64_t priority) : priority_(priority) {
    must(cudaEventCreateWithFlags(&done_, cudaEventDisableTiming), "event");
    make(1);
  }
  TurnStreams(TurnStreams const&) = delete;
  TurnStreams& operator=(TurnStreams const&) = delete;
  ~TurnStreams() {
    for (auto const stream : streams_) cudaStreamDestroy(stream);
    cudaEventDestroy(done_);
  }
  /// At least so many.
  void make(int threads) {
    int lowest = 0, highest = 0;
    must(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "priorities");
    auto const priorities = static_cast<std::uint64_t>(lowest - highest + 1);
    while (static_cast<int>(streams_.size()) < threads) {
      cudaStream_t stream = nullptr;
      auto const priority = lowest - static_cast<int>((priority_ + streams_.size()) % priorities);
      must(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority), "stream");
      streams_.push_back(stream);
    }
  }
  cudaStream_t operator[](int thread) const { return streams_[static_cast<std::size_t>(thread)]; }

  /// Of the thread whose turn begins.
  cudaStream_t begin(int thread) const {
    auto const stream = (*this)[thread];
    must(cudaStreamWaitEvent(stream, done_, 0), "event");
    return stream;
  }
  /// What comes next comes behind what this thread has enqueued.
  void behind(int thread) const { must(cudaEventRecord(done_, (*this)[thread]), "event"); }
  /// For all that has been enqueued.
  void wait() const {
    for (auto const stream : streams_) must(cudaStreamSynchronize(stream), "stream");
  }

 private:
  std::uint64_t priority_;
  cudaEvent_t done_ = nullptr;
  std::vector<cudaStream_t> streams_;
};

}  // namespace tessera::soak
