// SPDX-License-Identifier: Apache-2.0
// Message passing where a release has something to do: the payload lies in the slice of the L2 that all other
// SMs hammer with atomics, behind the writer's own, and the semaphore in an idle one. A post that does not
// wait for the stores overtakes them.
#include <gtest/gtest.h>

#include "gpu/device_buffer.hpp"
#include "measure/gpu/methods/pairs.cuh"

namespace tessera::gpu {
namespace {

constexpr int k_pairs = 7;
constexpr int k_payload_words = 4;  // 7 payloads of 16 bytes and the hot word in one line of 128 bytes
constexpr int k_hot_word = k_pairs * k_payload_words;
constexpr int k_threads = 256;
constexpr int k_own_atomics = 4;
constexpr unsigned k_rounds = 65536;  // times 7 pairs
constexpr unsigned long long k_patience = 4'000'000'000;

enum class Post {
  release,           ///< post()
  relaxed,           ///< barrier, then an add that orders nothing
  release_in_block,  ///< barrier, then an add that releases to the own block only
  bulk_store,        ///< the payload by the bulk copy engine, awaited, then post()
  bulk_not_awaited,  ///< the same, posted at once
  bulk_read_done,    ///< the same, posted when the engine has read shared memory
};

struct Counts {
  unsigned long long stale;
  unsigned long long gave_up;
  unsigned long long finished;
};

using There = PairStage<k_pairs, 0>;
using Back = PairStage<k_pairs, 1>;

template <Post P>
__device__ void write_payload(unsigned* payload, unsigned* shared, unsigned round) {
  constexpr bool bulk = P == Post::bulk_store || P == Post::bulk_not_awaited || P == Post::bulk_read_done;
  // The last warp writes and the first one posts.
  if (threadIdx.x != k_threads - 1) return;
  if constexpr (bulk) {
    unsigned* const from = shared + round % 2 * k_payload_words;
    for (int i = 0; i < k_payload_words; ++i) from[i] = round + 1;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 16;" ::"l"(payload),
                 "r"(static_cast<unsigned>(__cvta_generic_to_shared(from)))
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    if constexpr (P == Post::bulk_store) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    if constexpr (P == Post::bulk_read_done) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
  } else {
    for (int i = 0; i < k_payload_words; ++i) payload[i] = round + 1;
  }
}

template <Post P>
__global__ void pass_messages(ChainMemory memory, DeadlineWatch<> watch, unsigned* line, Counts* counts) {
  extern __shared__ __align__(128) unsigned shared[];
  int const pair = static_cast<int>(blockIdx.x) % k_pairs;
  Tile const other{{pair}};
  if (blockIdx.x >= 2 * k_pairs) {
    unsigned long long const begin = GlobalTimer::now();
    while (load_counter(&counts->finished) < k_pairs && GlobalTimer::now() - begin < watch.nanoseconds)
      for (int i = 0; i < 64; ++i) atomicAdd(line + k_hot_word, 0u);
    return;
  }
  StageView<There, DeadlineWatch<>> there(memory, watch);
  StageView<Back, DeadlineWatch<>> back(memory, watch);
  unsigned* const payload = line + pair * k_payload_words;
  for (unsigned round = 0; round < k_rounds; ++round) {
    if (blockIdx.x < k_pairs) {
      if (round > 0) {
        there.begin(pair, round - 1);
        if (!there.wait(operand_a, other)) break;
      }
      there.begin(pair, round);
      for (int i = 0; i < k_own_atomics; ++i)
        asm volatile("red.relaxed.gpu.add.u32 [%0], 0;" ::"l"(line + k_hot_word) : "memory");
      write_payload<P>(payload, shared, round);
      if constexpr (P == Post::relaxed) {
        __syncthreads();
        if (threadIdx.x == 0)
          asm volatile("red.relaxed.gpu.add.u32 [%0], 1;" ::"l"(memory.semaphores + pair) : "memory");
      } else if constexpr (P == Post::release_in_block) {
        __syncthreads();
        if (threadIdx.x == 0) add_release<Scope::block>(memory.semaphores + pair, 1u);
      } else {
        there.post();
      }
    } else {
      back.begin(pair, round);
      if (!back.wait(operand_a, other)) {
        if (threadIdx.x == 0) atomicAdd(&counts->gave_up, 1ULL);
        break;
      }
      if (threadIdx.x < k_payload_words && payload[threadIdx.x] != round + 1) atomicAdd(&counts->stale, 1ULL);
      back.post();
    }
  }
  if (threadIdx.x == 0 && blockIdx.x >= k_pairs) count_one(&counts->finished);
}

template <Post P>
unsigned long long stale_words() {
  DeviceBuffer<unsigned> semaphores(2 * 1024, 0);
  DeviceBuffer<unsigned long long> counters(static_cast<std::size_t>(counters_for(2)), 0);
  DeviceBuffer<StallRecord> stall(1, 0);
  DeviceBuffer<unsigned> line(32, 0);
  DeviceBuffer<Counts> counts(1, 0);
  cudaDeviceProp device;
  ok(cudaGetDeviceProperties(&device, 0));
  constexpr int k_shared = 120 * 1024;  // each block alone on its SM
  ok(cudaFuncSetAttribute(pass_messages<P>, cudaFuncAttributeMaxDynamicSharedMemorySize, k_shared));
  pass_messages<P><<<device.multiProcessorCount, k_threads, k_shared>>>(
      {semaphores.get(), counters.get()}, {stall.get(), k_patience}, line.get(), counts.get());
  ok(cudaGetLastError());
  ok(cudaDeviceSynchronize());
  auto const result = counts.download()[0];
  std::printf("  %d hand-overs, %llu stale words\n", static_cast<int>(k_pairs * k_rounds), result.stale);
  testing::Test::RecordProperty("hand_overs", std::to_string(k_pairs * k_rounds));
  testing::Test::RecordProperty("stale_words", std::to_string(result.stale));
  EXPECT_EQ(result.gave_up, 0u);
  return result.stale;
}

TEST(GpuHotSlice, PostPasses) { EXPECT_EQ(stale_words<Post::release>(), 0u); }
TEST(GpuHotSlice, AwaitedBulkStorePasses) { EXPECT_EQ(stale_words<Post::bulk_store>(), 0u); }
TEST(GpuHotSlice, RelaxedPostFails) { EXPECT_GT(stale_words<Post::relaxed>(), 0u); }
TEST(GpuHotSlice, PostToItsOwnBlockFails) { EXPECT_GT(stale_words<Post::release_in_block>(), 0u); }
// Wrong by the rules, but an H200 was not seen to fail: counted, and not held to.
TEST(GpuHotSlice, BulkStoreNotAwaitedIsCounted) { stale_words<Post::bulk_not_awaited>(); }
TEST(GpuHotSlice, BulkStoreReadDoneIsCounted) { stale_words<Post::bulk_read_done>(); }

}  // namespace
}  // namespace tessera::gpu
