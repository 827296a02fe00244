// SPDX-License-Identifier: Apache-2.0
// Message passing between blocks on different SMs, a million hand-overs: through post() and wait() no stale
// word is seen; with one half of either left out, the GPU shows stale words. The second half is what makes
// the first one a test.
#include <gtest/gtest.h>

#include "bulk.cuh"
#include "gpu/device_buffer.hpp"
#include "measure/gpu/methods/pairs.cuh"

namespace tessera::gpu {
namespace {

constexpr int k_pairs = 64;
constexpr int k_threads = 256;
constexpr int k_words_each = 4;
constexpr int k_payload = k_threads * k_words_each;
constexpr int k_rounds = 16384;  // times 64 pairs: 1'048'576 hand-overs

/// What is left out.
enum class Weak {
  nothing,
  post_without_barrier,        ///< thread 0 posts when it is done, the other warps may not be
  post_relaxed,                ///< barrier, but the add orders nothing
  post_relaxed_under_traffic,  ///< and other SMs keep a slice of the L2 busy with atomics on the payload
  wait_relaxed,                ///< polls without acquire
  wait_without_barrier,        ///< only the polling thread waits, the other warps go on
  bulk_copy,                   ///< nothing: written by ordinary stores, read by the bulk copy engine
  bulk_copy_without_fence,
  bulk_store,            ///< nothing: written by the engine
  bulk_store_read_done,  ///< posts when the engine has read shared memory, before its writes are there
  bulk_store_not_awaited,
};

using There = PairStage<k_pairs, 0>;
using Back = PairStage<k_pairs, 1>;

__device__ unsigned sm_id() {
  unsigned id;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
  return id;
}

__device__ unsigned word_of(int pair, int round, int i) {
  return (static_cast<unsigned>(round) * 0x9E3779B9u) ^ (static_cast<unsigned>(pair) << 20) ^
         static_cast<unsigned>(i);
}

/// Spreads the payload so that it lies in many slices of the L2, away from its semaphore.
__device__ int place_of(int i) { return (i % k_words_each) * k_threads + i / k_words_each; }

__device__ bool poll_relaxed(unsigned const* semaphore, unsigned target, DeadlineWatch<> const& watch) {
  unsigned long long const begin = GlobalTimer::now();
  for (;;) {
    unsigned seen;
    asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(seen) : "l"(semaphore) : "memory");
    if (reached(seen, target)) return true;
    // The watch's own acquire would strengthen the poll: only the clock is read here.
    if (GlobalTimer::now() - begin > watch.nanoseconds) return false;
  }
}

struct Counts {
  unsigned long long stale_words;
  unsigned long long stale_rounds;
  unsigned long long gave_up;
  unsigned long long same_sm;
  unsigned long long finished;
};

/// Sends a block's words in shared memory to the payload; called by one thread.
template <Weak W>
__device__ void bulk_store(unsigned* global, unsigned const* shared) {
  start_bulk_store(global, shared, k_payload * sizeof(unsigned));
  if constexpr (W == Weak::bulk_store) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  if constexpr (W == Weak::bulk_store_read_done)
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

/// Warps of a block are rarely done at the same time.
__device__ void some_warps_are_late(int thread) {
  if (thread < k_threads / 2) return;
  unsigned long long const begin = GlobalTimer::now();
  while (GlobalTimer::now() - begin < 1500) {
  }
}

/// Block i < pairs writes, block i + pairs reads; the big shared memory keeps them on SMs of their own.
template <Weak W>
__global__ void pass_messages(ChainMemory memory, DeadlineWatch<> watch, unsigned* payload, unsigned* sms,
                              Counts* counts) {
  extern __shared__ __align__(128) unsigned copied[];
  __shared__ unsigned long long barrier;
  constexpr bool by_store =
      W == Weak::bulk_store || W == Weak::bulk_store_read_done || W == Weak::bulk_store_not_awaited;
  constexpr bool by_copy = W == Weak::bulk_copy || W == Weak::bulk_copy_without_fence;
  int const pair = static_cast<int>(blockIdx.x) % k_pairs;
  int const thread = static_cast<int>(threadIdx.x);
  unsigned* const mine = payload + static_cast<long long>(pair) * k_payload;
  StageView<There, DeadlineWatch<>> there(memory, watch);
  StageView<Back, DeadlineWatch<>> back(memory, watch);
  Tile const other{{pair}};
  if (thread == 0) {
    sms[blockIdx.x] = sm_id();
    make_barrier(&barrier);
  }
  __syncthreads();

  if (blockIdx.x >= 2 * k_pairs) {
    // Adds nothing, as fast as it can, to one word until all readers are done.
    unsigned long long const begin = GlobalTimer::now();
    while (load_counter(&counts->finished) < k_pairs && GlobalTimer::now() - begin < watch.nanoseconds)
      for (int i = 0; i < 64; ++i) atomicAdd(payload + 5 * k_payload + 17, 0u);
    return;
  }
  if (blockIdx.x < k_pairs) {
    for (int round = 0; round < k_rounds; ++round) {
      if (round > 0) {
        there.begin(pair, static_cast<unsigned>(round - 1));
        if (!there.wait(operand_a, other)) return;
      }
      there.begin(pair, static_cast<unsigned>(round));
      if constexpr (!by_copy && !by_store) some_warps_are_late(thread);
      // Two buffers in turn: the engine may still read the one before.
      unsigned* const to = by_store ? copied + round % 2 * k_payload : mine;
      for (int j = 0; j < k_words_each; ++j) {
        int const i = thread * k_words_each + j;
        to[place_of(i)] = word_of(pair, round, i);
      }
      if constexpr (W == Weak::post_without_barrier) {
        if (thread == 0) add_release<Scope::device>(memory.semaphores + pair, 1u);
      } else if constexpr (W == Weak::post_relaxed || W == Weak::post_relaxed_under_traffic) {
        __syncthreads();
        if (thread == 0)
          asm volatile("red.relaxed.gpu.add.u32 [%0], 1;" ::"l"(memory.semaphores + pair) : "memory");
      } else if constexpr (by_store) {
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        if (thread == 0) {
          bulk_store<W>(mine, to);
          there.post<Group::thread>();
        }
      } else {
        if constexpr (by_copy && W != Weak::bulk_copy_without_fence) fence_proxy_async();
        there.post();
      }
    }
    return;
  }
  for (int round = 0; round < k_rounds; ++round) {
    back.begin(pair, static_cast<unsigned>(round));
    bool ok = true;
    if constexpr (W == Weak::wait_relaxed) {
      if (thread == 0) ok = poll_relaxed(memory.semaphores + pair, static_cast<unsigned>(round + 1), watch);
      ok = __syncthreads_and(ok) != 0;
    } else if constexpr (W == Weak::wait_without_barrier) {
      if (thread == 0) ok = back.wait<Group::thread>(operand_a, other);
    } else if constexpr (by_copy) {
      if (thread == 0) {
        if constexpr (W == Weak::bulk_copy)
          ok = back.wait_for_tma(operand_a, other);
        else
          ok = back.wait<Group::thread>(operand_a, other);
        if (ok)
          bulk_copy(copied, mine, k_payload * sizeof(unsigned), &barrier, static_cast<unsigned>(round) % 2);
      }
      ok = __syncthreads_and(ok) != 0;
    } else {
      ok = back.wait(operand_a, other);
    }
    if (!ok) {
      if (thread == 0) atomicAdd(&counts->gave_up, 1ULL);
      return;
    }
    int stale = 0;
    for (int j = 0; j < k_words_each; ++j) {
      // Another thread's words than the ones of the same number.
      int const i = (thread * k_words_each + j + 33 * k_words_each) % k_payload;
      unsigned const word = by_copy ? copied[place_of(i)] : mine[place_of(i)];
      stale += word != word_of(pair, round, i) ? 1 : 0;
    }
    int const stale_threads = __syncthreads_count(stale != 0);
    if (stale != 0) atomicAdd(&counts->stale_words, static_cast<unsigned long long>(stale));
    if (thread == 0 && stale_threads != 0) atomicAdd(&counts->stale_rounds, 1ULL);
    // The writer stores to the payload by ordinary stores after the engine has read it.
    if constexpr (W == Weak::bulk_copy) fence_proxy_async();
    back.post();
  }
  if (thread == 0) count_one(&counts->finished);
}

template <Weak W>
Counts run() {
  DeviceBuffer<unsigned> semaphores(2 * k_pairs, 0);
  DeviceBuffer<unsigned long long> counters(static_cast<std::size_t>(counters_for(2)), 0);
  DeviceBuffer<StallRecord> stall(1, 0);
  DeviceBuffer<unsigned> payload(static_cast<std::size_t>(k_pairs) * k_payload, k_poison);
  DeviceBuffer<unsigned> sms(2 * k_pairs + 4, k_poison);
  DeviceBuffer<Counts> counts(1, 0);
  constexpr int k_shared = 120 * 1024;
  ok(cudaFuncSetAttribute(pass_messages<W>, cudaFuncAttributeMaxDynamicSharedMemorySize, k_shared));
  int const blocks = 2 * k_pairs + (W == Weak::post_relaxed_under_traffic ? 4 : 0);
  pass_messages<W><<<blocks, k_threads, k_shared>>>({semaphores.get(), counters.get()},
                                                    {stall.get(), 2'000'000'000}, payload.get(), sms.get(),
                                                    counts.get());
  ok(cudaGetLastError());
  ok(cudaDeviceSynchronize());
  Counts result = counts.download()[0];
  auto const at = sms.download();
  for (int i = 0; i < k_pairs; ++i)
    result.same_sm += at[static_cast<std::size_t>(i)] == at[static_cast<std::size_t>(i + k_pairs)] ? 1 : 0;
  testing::Test::RecordProperty("hand_overs", std::to_string(k_pairs * k_rounds));
  testing::Test::RecordProperty("stale_hand_overs", std::to_string(result.stale_rounds));
  testing::Test::RecordProperty("stale_words", std::to_string(result.stale_words));
  std::printf("  %d hand-overs, %llu of them stale (%llu words)\n", k_pairs * k_rounds, result.stale_rounds,
              result.stale_words);
  EXPECT_EQ(result.same_sm, 0u);
  EXPECT_EQ(result.gave_up, 0u);
  return result;
}

TEST(GpuLitmus, PostAndWaitPass) { EXPECT_EQ(run<Weak::nothing>().stale_words, 0u); }
TEST(GpuLitmus, BulkCopyWithFencesPasses) { EXPECT_EQ(run<Weak::bulk_copy>().stale_words, 0u); }
TEST(GpuLitmus, AwaitedBulkStorePasses) { EXPECT_EQ(run<Weak::bulk_store>().stale_words, 0u); }
TEST(GpuLitmus, PostWithoutBarrierFails) { EXPECT_GT(run<Weak::post_without_barrier>().stale_words, 0u); }
TEST(GpuLitmus, RelaxedWaitFails) { EXPECT_GT(run<Weak::wait_relaxed>().stale_words, 0u); }
TEST(GpuLitmus, WaitWithoutBarrierFails) { EXPECT_GT(run<Weak::wait_without_barrier>().stale_words, 0u); }
// Wrong by the rules, but an H200 was not seen to fail: counted, and not held to.
TEST(GpuLitmus, RelaxedPostIsCounted) { run<Weak::post_relaxed>(); }
TEST(GpuLitmus, RelaxedPostUnderTrafficIsCounted) { run<Weak::post_relaxed_under_traffic>(); }
TEST(GpuLitmus, BulkStoreNotAwaitedIsCounted) { run<Weak::bulk_store_not_awaited>(); }
TEST(GpuLitmus, BulkStoreReadDoneIsCounted) { run<Weak::bulk_store_read_done>(); }
TEST(GpuLitmus, BulkCopyWithoutFencesIsCounted) { run<Weak::bulk_copy_without_fence>(); }

}  // namespace
}  // namespace tessera::gpu
