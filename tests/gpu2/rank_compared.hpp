// SPDX-License-Identifier: Apache-2.0
// Calls of one rank whose peers are other processes, each compared on the GPU with what the first one
// computed.
#pragma once

#include "compare_bits.hpp"
#include "rank_case.hpp"

namespace tessera::gemm_collectives {

/// What a case's result should be, bit by bit, on its GPU: what it is now. The result is poisoned, and again
/// behind each comparison.
class RankCompared {
 public:
  explicit RankCompared(RankCase const& some) : case_(some) {
    auto const bits = some.bits();
    count_ = bits.size() / 2;
    gpu::ok(cudaMalloc(&expected_, bits.size() + 16));
    gpu::ok(cudaMemcpy(expected_, bits.data(), bits.size(), cudaMemcpyHostToDevice));
    gpu::ok(cudaMalloc(&differing_, sizeof(unsigned long long)));
    gpu::ok(cudaMemset(differing_, 0, sizeof(unsigned long long)));
    some.poison();
  }
  RankCompared(RankCompared const&) = delete;
  RankCompared& operator=(RankCompared const&) = delete;
  ~RankCompared() {
    cudaFree(expected_);
    cudaFree(differing_);
  }

  RankCase const& some() const { return case_; }
  /// Behind a call, in the same stream.
  void compare(cudaStream_t stream) const {
    gpu::ok(compare_and_poison(case_.result(), expected_, count_, differing_, stream));
  }
  /// Elements of all calls so far, which have ended.
  unsigned long long differing() const {
    unsigned long long count = 0;
    gpu::ok(cudaMemcpy(&count, differing_, sizeof count, cudaMemcpyDeviceToHost));
    return count;
  }

 private:
  RankCase const& case_;
  void* expected_ = nullptr;
  unsigned long long* differing_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace tessera::gemm_collectives
