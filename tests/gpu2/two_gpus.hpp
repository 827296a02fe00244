// SPDX-License-Identifier: Apache-2.0
// Two GPUs that reach each other, with a stream each.
#pragma once

#include <memory>
#include <tessera/communicate/peer_group.hpp>
#include <vector>

#include "src/gpu/select.hpp"
#include "src/gpu/stream.hpp"

namespace tessera {

struct TwoGpus {
  std::shared_ptr<PeerGroup> group;  ///< null where there are none
  std::vector<std::unique_ptr<gpu::Stream>> streams;

  static TwoGpus* get() {
    static auto* const one = [] {
      auto* const result = new TwoGpus;
      int count = 0;
      if (cudaGetDeviceCount(&count) != cudaSuccess || count < 2) return result;
      auto made = PeerGroup::make({0, 1});
      if (!made) return result;
      result->group = *made;
      for (int rank = 0; rank < 2; ++rank) {
        gpu::Select const current(rank);
        result->streams.push_back(std::make_unique<gpu::Stream>());
      }
      return result;
    }();
    return one;
  }
  cudaStream_t stream(int rank) const { return streams[static_cast<std::size_t>(rank)]->get(); }
  std::vector<cudaStream_t> both() const { return {stream(0), stream(1)}; }
};

}  // namespace tessera
