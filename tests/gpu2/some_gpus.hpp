// SPDX-License-Identifier: Apache-2.0
// GPUs that reach each other, with a stream each: two, or as many as TESSERA_GPUS says.
#pragma once

#include <memory>
#include <numeric>
#include <tessera/communicate/peer_group.hpp>
#include <vector>

#include "src/bench/asked_gpus.hpp"
#include "src/gpu/select.hpp"
#include "src/gpu/stream.hpp"

namespace tessera {

/// A value for each rank, numbered as ranks are.
template <class T>
class PerRank {
 public:
  explicit PerRank(int count) : values_(static_cast<std::size_t>(count)) {}
  T& operator[](int rank) { return values_[static_cast<std::size_t>(rank)]; }
  T const& operator[](int rank) const { return values_[static_cast<std::size_t>(rank)]; }
  auto begin() { return values_.begin(); }
  auto end() { return values_.end(); }

 private:
  std::vector<T> values_;
};

struct SomeGpus {
  std::shared_ptr<PeerGroup> group;  ///< null where there are none
  std::vector<std::unique_ptr<gpu::Stream>> streams;

  static SomeGpus* get() {
    static auto* const one = [] {
      auto* const result = new SomeGpus;
      int count = 0;
      int const wanted = bench::asked_gpus();
      if (cudaGetDeviceCount(&count) != cudaSuccess || count < wanted) return result;
      auto made = PeerGroup::make(numbers(wanted));
      if (!made) return result;
      result->group = *made;
      for (int rank = 0; rank < wanted; ++rank) {
        gpu::Select const current(rank);
        result->streams.push_back(std::make_unique<gpu::Stream>());
      }
      return result;
    }();
    return one;
  }
  /// 0, 1, ...
  static std::vector<int> numbers(int count) {
    std::vector<int> all(static_cast<std::size_t>(count));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  int count() const { return static_cast<int>(streams.size()); }
  std::vector<int> ranks() const { return numbers(count()); }
  cudaStream_t stream(int rank) const { return streams[static_cast<std::size_t>(rank)]->get(); }
  std::vector<cudaStream_t> all() const {
    std::vector<cudaStream_t> result;
    for (auto const& one : streams) result.push_back(one->get());
    return result;
  }
  /// A size that every rank has a part of, of eight elements or a multiple, not smaller than this one.
  int spread(int size) const {
    int const unit = 8 * count();
    return (size + unit - 1) / unit * unit;
  }
};

}  // namespace tessera
