// SPDX-License-Identifier: Apache-2.0
// A stream and an event that free themselves.
#pragma once

#include <array>

#include "check.hpp"

namespace tessera::gpu {

class Stream {
 public:
  /// Lower numbers go first; 0 is the ordinary priority.
  explicit Stream(int priority = 0) {
    ok(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, priority));
  }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(Stream const&) = delete;
  Stream& operator=(Stream const&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// Several, to be used by turns.
class Streams {
 public:
  cudaStream_t of_sample(int sample) const {
    return streams_[static_cast<std::size_t>(sample < 0 ? 0 : sample) % streams_.size()].get();
  }

 private:
  std::array<Stream, 8> streams_;
};

/// Without timing: the cheapest edge between two streams.
class Edge {
 public:
  Edge() { ok(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming)); }
  ~Edge() { cudaEventDestroy(event_); }
  Edge(Edge const&) = delete;
  Edge& operator=(Edge const&) = delete;

  /// What is put on `to` from now on waits for what is on `from`.
  void put(cudaStream_t from, cudaStream_t to) const {
    ok(cudaEventRecord(event_, from));
    wait(to);
  }
  void wait(cudaStream_t stream) const { ok(cudaStreamWaitEvent(stream, event_, 0)); }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace tessera::gpu
