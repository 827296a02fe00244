// SPDX-License-Identifier: Apache-2.0
// An order that racecheck does not see: a word between two blocks of a cluster, stored with release and
// polled with acquire. The kernel is right. scripts/race_kinds counts hazards of this kind as known.
#include <gtest/gtest.h>

#include <array>
#include <tessera/sync/shared_barrier.cuh>

namespace {

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
