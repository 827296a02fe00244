// SPDX-License-Identifier: Apache-2.0
// Warps that keep memory busy by loads of the copy engine, as a launch does that streams weights, while other
// warps of the block measure something. For sm_90 and later.
#pragma once

#include "deadline.cuh"
#include "device_clock.cuh"
#include "tessera/sync/shared_barrier.cuh"
#include "tessera/sync/tensor_load.cuh"

namespace tessera::probe {

constexpr int k_stream_warps = 4;
constexpr int k_stream_chunk = 8192;  ///< bytes of a load
constexpr int k_stream_most_slots = 4;

/// What a launch streams. The bytes on their way on an SM are k_stream_warps * slots * k_stream_chunk.
struct MemoryStream {
  unsigned char const* from = nullptr;     ///< far more than the L2 holds
  unsigned chunks = 0;                     ///< of k_stream_chunk bytes
  int slots = 0;                           ///< of each warp; 0: memory is left alone
  unsigned* done = nullptr;                ///< the stream ends when it is not 0, or after half a second
  unsigned long long* loaded = nullptr;    ///< chunks, by all
  unsigned long long* begin_ns = nullptr;  ///< earliest; all bits set before
  unsigned long long* end_ns = nullptr;    ///< latest
};

__device__ inline void load_chunk(unsigned to, void const* from, unsigned barrier,
                                  unsigned long long policy) {
  barrier_expect(barrier, k_stream_chunk);
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, "
      "[%3], "
      "%4;" ::"r"(to),
      "l"(__cvta_generic_to_global(from)), "r"(k_stream_chunk), "r"(barrier), "l"(policy)
      : "memory");
}

/// Called by k_stream_warps warps, each with its number; returns when all that it has asked for has landed.
/// `slots`: shared memory for all of them, 128-byte aligned. `barriers`: k_stream_most_slots for each warp.
__device__ inline void stream_memory(MemoryStream const& stream, int warp, unsigned slots,
                                     unsigned barriers) {
  if (stream.slots == 0 || threadIdx.x % 32 != 0) return;
  auto const barrier = [&](int slot) { return barriers + 8 * (warp * k_stream_most_slots + slot); };
  auto const address = [&](int slot) { return slots + (warp * stream.slots + slot) * k_stream_chunk; };
  for (int slot = 0; slot < stream.slots; ++slot) barrier_init(barrier(slot), 1);
  fence_barrier_init();
  unsigned long long const policy = streaming_policy(), begin = global_ns();
  unsigned const apart = gridDim.x * k_stream_warps;
  unsigned chunk = (blockIdx.x * k_stream_warps + static_cast<unsigned>(warp)) % stream.chunks;
  auto const ask = [&](int slot) {
    load_chunk(address(slot), stream.from + static_cast<unsigned long long>(chunk) * k_stream_chunk,
               barrier(slot), policy);
    chunk = (chunk + apart) % stream.chunks;
  };
  for (int slot = 0; slot < stream.slots; ++slot) ask(slot);
  RingPlace place;
  unsigned loaded = 0;
  bool go_on = true;
  for (int on_their_way = stream.slots; on_their_way > 0; place.next(stream.slots)) {
    if (!wait_until([&] { return barrier_try(barrier(place.index), place.parity); }, 100'000'000)) break;
    ++loaded;
    if (go_on && loaded % 8 == 0) {
      unsigned done;
      asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(done) : "l"(stream.done) : "memory");
      go_on = done == 0 && global_ns() - begin < 500'000'000;
    }
    if (go_on)
      ask(place.index);
    else
      --on_their_way;
  }
  atomicAdd(stream.loaded, static_cast<unsigned long long>(loaded));
  atomicMin(stream.begin_ns, begin);
  atomicMax(stream.end_ns, global_ns());
}

}  // namespace tessera::probe
