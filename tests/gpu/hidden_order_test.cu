// SPDX-License-Identifier: Apache-2.0
// Two orders that racecheck does not always see, each shown by the smallest kernel that has it. Both kernels
// are right. scripts/race_kinds counts hazards of these kinds as known.
#include <gtest/gtest.h>

#include <array>
#include <tessera/sync/shared_barrier.cuh>

namespace {

constexpr int k_warp = 32;

/// Clocks for which a warp is late in a round, from 0 to 16383.
__device__ inline unsigned lateness(unsigned block, unsigned round) {
  unsigned x = (block * 4099 + round) * 2654435761u;
  x ^= x >> 15;
  return x * 2246822519u >> 18;
}

/// Warp 0 reads a slot, warp 1 fills it for the next round. At a named barrier warp 0 arrives (`Arrives`) or
/// waits, and warp 1 waits; both meet at the end of a round. Where warp 0 only arrives and warp 1 is late,
/// warp 0 stands at the next barrier while warp 1 leaves this one.
template <bool Arrives>
__global__ void arrive_early(int* sums, int rounds) {
  __shared__ int slot[k_warp];
  int const thread = static_cast<int>(threadIdx.x), lane = thread % k_warp;
  if (thread < k_warp) slot[lane] = 0;
  __syncthreads();
  int sum = 0;
  for (int round = 0; round < rounds; ++round) {
    if (thread < k_warp) {
      sum += slot[k_warp - 1 - lane];
      if (Arrives)
        asm volatile("barrier.cta.arrive 1, 64;" ::: "memory");
      else
        asm volatile("barrier.cta.sync 1, 64;" ::: "memory");
    } else {
      asm volatile("barrier.cta.sync 1, 64;" ::: "memory");
      auto const begun = clock64();
      while (clock64() - begun < lateness(blockIdx.x, static_cast<unsigned>(round))) {
      }
      slot[lane] = round + lane;
    }
    if (__syncthreads_or(round < 0)) break;
  }
  if (thread < k_warp) sums[blockIdx.x * k_warp + thread] = sum;
}

template <bool Arrives>
void expect_what_was_filled() {
  constexpr int blocks = 128, rounds = 4000;
  int* sums = nullptr;
  ASSERT_EQ(cudaMalloc(&sums, blocks * k_warp * sizeof(int)), cudaSuccess);
  arrive_early<Arrives><<<blocks, 2 * k_warp>>>(sums, rounds);
  std::array<int, blocks * k_warp> seen{};
  ASSERT_EQ(cudaMemcpy(seen.data(), sums, sizeof(seen), cudaMemcpyDeviceToHost), cudaSuccess);
  ASSERT_EQ(cudaFree(sums), cudaSuccess);
  for (int k = 0; k < blocks * k_warp; ++k)
    ASSERT_EQ(seen[k], (rounds - 1) * (rounds - 2) / 2 + (rounds - 1) * (k_warp - 1 - k % k_warp)) << k;
}

TEST(GpuHiddenOrder, OneWarpArrivesEarly) { expect_what_was_filled<true>(); }
TEST(GpuHiddenOrder, OneWarpWaits) { expect_what_was_filled<false>(); }

/// Two blocks of a cluster count in turns: each stores a word in the other's memory with release, and looks
/// at its own until it is there. `sums`: of what each found beside the word. A word that never comes ends the
/// kernel.
__global__ void __cluster_dims__(2, 1, 1) hand_word(int* sums) {
  __shared__ unsigned word;
  __shared__ int beside;
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  word = 0;
  asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
  unsigned to_word, to_beside;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(to_word)
      : "r"(tessera::shared_address(&word)), "r"(rank ^ 1));
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(to_beside)
      : "r"(tessera::shared_address(&beside)), "r"(rank ^ 1));
  int sum = 0;
  for (unsigned turn = 1; turn <= 64; ++turn) {
    if (turn % 2 == rank) {
      asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(to_beside), "r"(turn) : "memory");
      asm volatile("st.release.cluster.shared::cluster.u32 [%0], %1;" ::"r"(to_word), "r"(turn) : "memory");
      continue;
    }
    auto const begun = clock64();
    unsigned seen;
    do
      asm volatile("ld.acquire.cluster.shared::cta.u32 %0, [%1];"
                   : "=r"(seen)
                   : "r"(tessera::shared_address(&word))
                   : "memory");
    while (seen < turn && clock64() - begun < 1'000'000'000);
    sum += beside;
  }
  sums[rank] = sum;
  asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
}

TEST(GpuHiddenOrder, AWordBetweenBlocksOfACluster) {
  int* sums = nullptr;
  ASSERT_EQ(cudaMalloc(&sums, 2 * sizeof(int)), cudaSuccess);
  hand_word<<<2, 1>>>(sums);
  std::array<int, 2> seen{};
  ASSERT_EQ(cudaMemcpy(seen.data(), sums, sizeof(seen), cudaMemcpyDeviceToHost), cudaSuccess);
  ASSERT_EQ(cudaFree(sums), cudaSuccess);
  EXPECT_EQ(seen[0], 32 * 32);  // odd turns
  EXPECT_EQ(seen[1], 32 * 33);  // even turns
}

}  // namespace
