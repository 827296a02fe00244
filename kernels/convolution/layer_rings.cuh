// SPDX-License-Identifier: Apache-2.0
// The rings of a block where a layer is a launch of its own, as the warps that multiply see them. Who fills
// them waits for nothing but the launch before, as the stream has it: no wait needs a deadline.
#pragma once

#include <tessera/sync/shared_barrier.cuh>

#include "kernels/convolution/layer_memory.hpp"

namespace tessera::convolution {

__device__ __forceinline__ void wait_barrier(unsigned barrier, unsigned parity) {
  while (!barrier_try(barrier, parity)) {
  }
}

class LayerRings {
 public:
  static constexpr int threads = 32 * k_warps;

  __device__ __forceinline__ LayerRings(LayerMemory const& memory, unsigned base)
      : memory_(memory), base_(base) {}

  __device__ __forceinline__ RingPlace next_slot() {
    auto const place = early_;
    early_.next(memory_.slots);
    return place;
  }
  __device__ __forceinline__ void wait_slot(RingPlace const& place) const {
    wait_barrier(base_ + memory_.full(place.index), place.parity);
  }
  __device__ __forceinline__ unsigned slot(RingPlace const& place) const {
    return base_ + memory_.slot(place.index);
  }
  /// All lanes of every warp, when the warp has read it.
  __device__ __forceinline__ void release_slot(RingPlace const& place) const {
    release(memory_.empty(place.index));
  }

  __device__ __forceinline__ RingPlace next_late_slot() {
    auto const place = late_;
    late_.next(memory_.patches);
    return place;
  }
  __device__ __forceinline__ void wait_late_slot(RingPlace const& place) const {
    wait_barrier(base_ + memory_.patch_full(place.index), place.parity);
  }
  __device__ __forceinline__ unsigned late_slot(RingPlace const& place) const {
    return base_ + memory_.patch(place.index);
  }
  __device__ __forceinline__ void release_late_slot(RingPlace const& place) const {
    release(memory_.patch_empty(place.index));
  }

 private:
  __device__ __forceinline__ void release(int barrier) const {
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier_arrive(base_ + barrier);
  }

  LayerMemory const& memory_;
  unsigned base_;
  RingPlace early_;
  RingPlace late_;
};

}  // namespace tessera::convolution
