// SPDX-License-Identifier: Apache-2.0
// A barrier of some of a block's warps. Where a warp comes in parts, a copy of the barrier gathers the warp
// first, and has the barrier's number and its threads in a register; warps that come whole meet it at the
// barrier itself. Synccheck counts the copy as another barrier, and reports this kernel although it is right.
#include <gtest/gtest.h>

#include <array>

namespace {

constexpr int k_threads = 64, k_others = 32;

constexpr int k_rounds = 64;

/// Of the first `k_threads` of a block: did any of them say yes?
__device__ inline unsigned anyone(bool yes) {
  unsigned any = 0;
  asm volatile(
      "{ .reg .pred p, q; setp.ne.u32 p, %1, 0; barrier.cta.red.or.pred q, 2, %2, p; selp.u32 %0, 1, 0, q; }"
      : "=r"(any)
      : "r"(yes ? 1u : 0u), "n"(k_threads)
      : "memory");
  return any;
}

/// Threads of warp 0 each wait for a word of their own, and then meet warp 1; the last warp raises the words
/// one by one.
/// `met`: rounds in which thread 5 said yes, of each thread.
__global__ void meet_one_by_one(int volatile* words, unsigned* met) {
  int const warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);
  if (warp < k_threads / 32) {
    unsigned said = 0;
    auto const begun = clock64();
    for (int round = 1; round <= k_rounds; ++round) {
      bool late = false;
      while (warp == 0 && words[threadIdx.x] < round)
        if (clock64() - begun > 1'000'000'000) {
          late = true;
          break;
        }
      if (anyone(late)) {
        if (anyone(late)) return;
      }
      said += anyone(threadIdx.x == 5 && round % 2 == 1);
    }
    met[threadIdx.x] = said;
  } else if (threadIdx.x == k_threads) {
    for (int round = 1; round <= k_rounds; ++round)
      for (int i = 0; i < k_threads; ++i) words[i * 17 % k_threads] = round;
  }
}

TEST(GpuNamedBarrier, IsMetByThreadsThatComeOneByOne) {
  int* words = nullptr;
  unsigned* met = nullptr;
  ASSERT_EQ(cudaMalloc(&words, k_threads * sizeof(int)), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&met, k_threads * sizeof(unsigned)), cudaSuccess);
  ASSERT_EQ(cudaMemset(words, 0, k_threads * sizeof(int)), cudaSuccess);
  ASSERT_EQ(cudaMemset(met, 0, k_threads * sizeof(unsigned)), cudaSuccess);
  meet_one_by_one<<<1, k_threads + k_others>>>(words, met);
  std::array<unsigned, k_threads> found{};
  ASSERT_EQ(cudaMemcpy(found.data(), met, sizeof(found), cudaMemcpyDeviceToHost), cudaSuccess);
  ASSERT_EQ(cudaFree(words), cudaSuccess);
  ASSERT_EQ(cudaFree(met), cudaSuccess);
  for (unsigned const rounds : found) EXPECT_EQ(rounds, k_rounds / 2u);
}

}  // namespace
