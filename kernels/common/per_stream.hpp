// SPDX-License-Identifier: Apache-2.0
// What one-call functions keep for each stream. Calls that share it are in one stream, so that it must be
// known when two calls are: the same handle may be another stream's by now, cudaStreamPerThread is one handle
// for the streams of all threads, and what is captured runs whenever its graph does.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

namespace tessera::kernels {

/// Work in the same place is ordered.
struct StreamPlace {
  unsigned long long capture = 0;  ///< 0: none
  cudaStream_t stream = nullptr;
  unsigned long long thread = 0;  ///< cudaStreamPerThread's stream; 0: another

  friend bool operator<(StreamPlace const& a, StreamPlace const& b) {
    return std::tie(a.capture, a.stream, a.thread) < std::tie(b.capture, b.stream, b.thread);
  }
  friend bool operator==(StreamPlace const& a, StreamPlace const& b) {
    return std::tie(a.capture, a.stream, a.thread) == std::tie(b.capture, b.stream, b.thread);
  }
};

/// One handle for each stream: the legacy default stream has two, and so has a thread's own where host code
/// is compiled with --default-stream per-thread.
inline cudaStream_t only_handle(cudaStream_t stream) {
  if (stream != nullptr) return stream;
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
  return cudaStreamPerThread;
#else
  return cudaStreamLegacy;
#endif
}

/// What CUDA says of a stream.
struct StreamNow {
  StreamPlace place;
  unsigned long long id = 0;  ///< never used again; 0 in a capture, where it cannot be asked for
  cudaGraph_t graph = nullptr;
};

inline cudaError_t look_at(cudaStream_t stream, StreamNow& now) {
  auto status = cudaStreamCaptureStatusNone;
  unsigned long long capture = 0;
  now = {};
  stream = only_handle(stream);
  now.place.stream = stream;
  if (auto const error = cudaStreamGetCaptureInfo(stream, &status, &capture, &now.graph);
      error != cudaSuccess)
    return error;
  if (status != cudaStreamCaptureStatusNone) {
    now.place.capture = capture;
    return cudaSuccess;
  }
  if (auto const error = cudaStreamGetId(stream, &now.id); error != cudaSuccess) return error;
  if (stream == cudaStreamPerThread) now.place.thread = now.id;
  return cudaSuccess;
}

/// What is kept, by place and by all else that tells one from another. Values are made when they are first
/// asked for, and stay where they are. A capture's goes to a later capture when its graph is gone.
template <class Rest, class Value>
class PerStream {
 public:
  PerStream() = default;
  PerStream(PerStream const&) = delete;
  PerStream& operator=(PerStream const&) = delete;

  std::mutex mutex;  ///< held by whoever calls the following, or uses a value

  cudaError_t find(cudaStream_t stream, Rest const& rest, Value*& value) {
    StreamNow now;
    if (auto const error = look_at(stream, now); error != cudaSuccess) return error;
    return find(now, rest, value);
  }

  /// Separate from the above for tests.
  cudaError_t find(StreamNow const& now, Rest const& rest, Value*& value) {
    Key const key{rest, now.place};
    auto known = all_.find(key);
    if (known == all_.end()) {
      known = now.place.capture != 0 ? of_ended_capture(key) : all_.end();
      if (known == all_.end()) known = all_.try_emplace(key).first;
      known->second.id = now.id;
      if (now.graph != nullptr)
        if (auto const error = tell_of_end(now.graph, key); error != cudaSuccess) return error;
    } else if (known->second.id != now.id) {
      // The handle's stream before is gone, but its work may still run. Where another thread captures, this
      // fails, and spoils its capture: then nothing is shared, and the caller is told.
      if (auto const error = wait_for_all_(); error != cudaSuccess) return error;
      known->second.id = now.id;
    }
    value = &known->second.value;
    return cudaSuccess;
  }

  /// `function(rest, value, captured)` for all values of a stream that is not captured, and for all that
  /// captures have: their graphs may run in any stream.
  template <class Function>
  cudaError_t for_each(cudaStream_t stream, Function const& function) {
    StreamNow now;
    if (auto const error = look_at(stream, now); error != cudaSuccess) return error;
    for (auto& [key, entry] : all_)
      if (bool const captured = key.second.capture != 0;
          captured || (key.second == now.place && entry.id == now.id))
        function(key.first, entry.value, captured);
    return cudaSuccess;
  }

  /// The same for all values.
  template <class Function>
  void for_all(Function const& function) {
    for (auto& [key, entry] : all_) function(key.first, entry.value, key.second.capture != 0);
  }

  /// The graph of a capture is gone, and all that were made of it.
  void ended(Rest const& rest, StreamPlace const& place) {
    std::lock_guard const lock(ended_mutex_);
    ended_.push_back({rest, place});
  }
  std::size_t size() const { return all_.size(); }
  /// In place of cudaDeviceSynchronize(), for tests.
  void wait_by(cudaError_t (*wait)()) { wait_for_all_ = wait; }

 private:
  using Key = std::pair<Rest, StreamPlace>;
  struct Entry {
    unsigned long long id = 0;
    Value value;
  };
  struct Ticket {
    PerStream* kept;
    Key key;
  };

  typename std::map<Key, Entry>::iterator of_ended_capture(Key const& key) {
    std::lock_guard const lock(ended_mutex_);
    for (auto& one : ended_) {
      if (one.first < key.first || key.first < one.first) continue;
      auto node = all_.extract(one);
      std::swap(one, ended_.back());
      ended_.pop_back();
      if (node.empty()) return all_.end();
      node.key() = key;
      return all_.insert(std::move(node)).position;
    }
    return all_.end();
  }

  /// CUDA calls it when nothing holds the graph any more; it may not call CUDA.
  cudaError_t tell_of_end(cudaGraph_t graph, Key const& key) {
    auto* const ticket = new Ticket{this, key};
    auto const tell = [](void* data) {
      auto* const told = static_cast<Ticket*>(data);
      told->kept->ended(told->key.first, told->key.second);
      delete told;
    };
    cudaUserObject_t object = nullptr;
    if (auto const error = cudaUserObjectCreate(&object, ticket, tell, 1, cudaUserObjectNoDestructorSync);
        error != cudaSuccess) {
      delete ticket;
      return error;
    }
    return cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove);
  }

  std::map<Key, Entry> all_;
  std::mutex ended_mutex_;
  std::vector<Key> ended_;
  cudaError_t (*wait_for_all_)() = +[] { return cudaDeviceSynchronize(); };
};

}  // namespace tessera::kernels
