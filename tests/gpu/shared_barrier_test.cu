// SPDX-License-Identifier: Apache-2.0
// A slot of shared memory that a warp reads and another fills again, handed over by a barrier at which every
// lane arrives, or one lane for its warp. Both are right. Under racecheck the two show what that tool
// follows: scripts/race_kinds counts on it.
#include <gtest/gtest.h>

#include <array>
#include <tessera/sync/shared_barrier.cuh>

namespace {

constexpr int k_rounds = 8, k_warp = 32;

/// Warp 0 reads what warp 1 stores, and adds it up.
template <bool EveryLane>
__global__ void hand_over(int* sums) {
  __shared__ int slot[k_warp];
  __shared__ unsigned long long barriers[2];
  int const lane = static_cast<int>(threadIdx.x) % k_warp;
  unsigned const full = tessera::shared_address(&barriers[0]), empty = tessera::shared_address(&barriers[1]);
  if (threadIdx.x == 0) {
    tessera::barrier_init(full, k_warp);
    tessera::barrier_init(empty, EveryLane ? k_warp : 1);
    tessera::fence_barrier_init();
  }
  __syncthreads();
  // Both warps always arrive: the waits end.
  int sum = 0;
  for (int round = 0; round < k_rounds; ++round) {
    if (threadIdx.x < k_warp) {
      while (!tessera::barrier_try(full, round % 2)) {
      }
      sum += slot[k_warp - 1 - lane];
      __syncwarp();
      if (EveryLane || lane == 0) tessera::barrier_arrive(empty);
    } else {
      while (round > 0 && !tessera::barrier_try(empty, (round - 1) % 2)) {
      }
      slot[lane] = round * k_warp + lane;
      tessera::barrier_arrive(full);
    }
  }
  if (threadIdx.x < k_warp) sums[lane] = sum;
}

template <bool EveryLane>
void expect_right_sums() {
  int* sums = nullptr;
  ASSERT_EQ(cudaMalloc(&sums, k_warp * sizeof(int)), cudaSuccess);
  hand_over<EveryLane><<<1, 2 * k_warp>>>(sums);
  std::array<int, k_warp> seen{};
  ASSERT_EQ(cudaMemcpy(seen.data(), sums, sizeof(seen), cudaMemcpyDeviceToHost), cudaSuccess);
  ASSERT_EQ(cudaFree(sums), cudaSuccess);
  for (int lane = 0; lane < k_warp; ++lane)
    EXPECT_EQ(seen[lane], k_rounds * (k_rounds - 1) / 2 * k_warp + k_rounds * (k_warp - 1 - lane));
}

TEST(GpuSharedBarrier, EveryLaneArrives) { expect_right_sums<true>(); }
TEST(GpuSharedBarrier, OneLaneArrivesForItsWarp) { expect_right_sums<false>(); }

}  // namespace
