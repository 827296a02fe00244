// SPDX-License-Identifier: Apache-2.0
// The order of what waits for peers. A kernel that fills a GPU while it waits keeps others off it: two
// operations of a group that two GPUs begin in opposite order would wait for each other. So a rank's go one
// behind the other, whatever their streams.
#pragma once

#include <deque>
#include <mutex>
#include <vector>

#include "check.hpp"
#include "select.hpp"

namespace tessera::gpu {

class PeerOrder {
  static constexpr unsigned long long k_none = ~0ull;
  /// What a rank has enqueued last.
  struct Last {
    cudaEvent_t event = nullptr;
    bool recorded = false;
    cudaStream_t stream = nullptr;
    unsigned long long id = k_none;  ///< the stream's: handles are used again
  };
  struct Rank {
    std::mutex mutex;
    int device = 0;
    Last eager, captured;
    unsigned long long capture = 0;
  };

 public:
  /// A negative device is another process's.
  explicit PeerOrder(std::vector<int> const& devices) {
    for (int const device : devices) {
      auto& one = ranks_.emplace_back();
      if (device < 0) continue;
      Select const current(device);
      one.device = device;
      for (auto* event : {&one.eager.event, &one.captured.event})
        ok(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
    }
  }
  ~PeerOrder() {
    for (auto const& one : ranks_)
      for (auto* event : {one.eager.event, one.captured.event})
        if (event != nullptr) cudaEventDestroy(event);
  }
  PeerOrder(PeerOrder const&) = delete;
  PeerOrder& operator=(PeerOrder const&) = delete;

  /// What a rank enqueues while it lives is behind all that the rank's turns before have enqueued, and nobody
  /// else has a turn of this rank. Who takes turns of several ranks takes them from rank 0 on. What a capture
  /// holds is behind what the same capture holds, and no other: a graph runs whenever it is launched.
  class Turn {
   public:
    Turn(PeerOrder& order, int rank, cudaStream_t stream)
        : rank_(order.ranks_[static_cast<std::size_t>(rank)]), lock_(rank_.mutex), stream_(stream) {
      auto status = cudaStreamCaptureStatusNone;
      unsigned long long id = 0;
      ok(cudaStreamGetCaptureInfo(stream, &status, &id));
      bool const captured = status != cudaStreamCaptureStatusNone;
      last_ = captured ? &rank_.captured : &rank_.eager;
      if (captured && rank_.capture != id) last_->recorded = false;
      if (captured) rank_.capture = id;
      // Within a stream the order is there.
      unsigned long long stream_id = 0;
      if (!captured) ok(cudaStreamGetId(stream, &stream_id));
      bool const same = captured ? last_->stream == stream : last_->id == stream_id;
      if (last_->recorded && !same) ok(cudaStreamWaitEvent(stream, last_->event, 0));
      last_->stream = stream;
      last_->id = stream_id;
    }
    ~Turn() {
      int before = 0;
      cudaGetDevice(&before);
      cudaSetDevice(rank_.device);
      // It fails where nothing could be enqueued: in a stream of another GPU, or in a capture that is broken.
      // What was recorded before stays the last there was.
      if (cudaEventRecord(last_->event, stream_) == cudaSuccess) {
        last_->recorded = true;
      } else {
        (void)cudaGetLastError();
        last_->stream = nullptr;
        last_->id = k_none;
      }
      cudaSetDevice(before);
    }
    Turn(Turn const&) = delete;
    Turn& operator=(Turn const&) = delete;

   private:
    Rank& rank_;
    std::lock_guard<std::mutex> lock_;
    cudaStream_t stream_;
    Last* last_ = nullptr;
  };

 private:
  std::deque<Rank> ranks_;
};

}  // namespace tessera::gpu
