// SPDX-License-Identifier: Apache-2.0
// Operands and results of a tensor-parallel attention block on several GPUs of this process.
#pragma once

#include <gtest/gtest.h>

#include "kernels/gemm_collectives/refused.hpp"
#include "some_gpus.hpp"
#include "whole_attention.hpp"

namespace tessera::gemm_collectives {

class AttentionCase {
  using Bits = WholeAttention::Bits;

 public:
  AttentionCase(SomeGpus const& gpus, AttentionProblem const& problem, unsigned seed = 1,
                std::vector<int> const& offsets = {})
      : gpus_(gpus), problem_(problem), whole_(on_first(problem, seed, offsets)), y_(memory(elements(), 2)) {
    auto const put = [&](auto const& of_rank) {
      auto& to = operands_.emplace_back(memory(of_rank(0).size(), sizeof of_rank(0)[0]));
      for (int const rank : gpus.ranks()) {
        auto const all = of_rank(rank);
        gpu::ok(cudaMemcpy(to.at(rank), all.data(), sizeof all[0] * all.size(), cudaMemcpyDefault));
      }
    };
    put([&](int) { return whole_.x; });
    put([&](int rank) { return whole_.w_in(rank); });
    put([&](int rank) { return whole_.w_out(rank); });
    put([&](int) { return whole_.turns; });
    put([&](int) { return whole_.positions; });
    put([&](int) { return whole_.offsets; });
    poison();
  }

  std::vector<AttentionOperands> operands() const {
    std::vector<AttentionOperands> all;
    for (int const rank : gpus_.ranks()) {
      auto const at = [&](std::size_t which) { return operands_[which].at(rank); };
      AttentionOperands one;
      one.x = static_cast<unsigned short const*>(at(0)) + first_element(rank);
      one.w_in = at(1);
      one.w_out = at(2);
      one.y = y_.at(rank);
      if (problem_.turning != Turning::none) one.turns = static_cast<float2 const*>(at(3));
      if (problem_.ragged) {
        one.positions = static_cast<int const*>(at(4));
        one.offsets = static_cast<int const*>(at(5));
      }
      all.push_back(one);
    }
    return all;
  }
  void poison() const {
    for (int const rank : gpus_.ranks()) {
      gpu::Select const current(rank);
      bench::poison(y_.at(rank), elements(), gpus_.stream(rank));
      gpu::ok(cudaStreamSynchronize(gpus_.stream(rank)));
    }
  }
  Bits result(int rank) const {
    Bits bits(own_elements(rank));
    gpu::ok(cudaMemcpy(bits.data(), y_.at(rank), 2 * bits.size(), cudaMemcpyDefault));
    return bits;
  }
  void expect_right(std::string const& what) const {
    for (int const rank : gpus_.ranks()) {
      gpu::Select const current(rank);
      auto const count = own_elements(rank);
      EXPECT_LT(whole_.error(y_.at(rank), own(rank), gpus_.stream(rank)), 8e-3) << what << ", rank " << rank;
      EXPECT_EQ(bench::not_poisoned(static_cast<unsigned short*>(y_.at(rank)) + count, elements() - count,
                                    gpus_.stream(rank)),
                0u)
          << what << ", rank " << rank;
    }
    if (problem_.rows != Tokens::whole) return;
    auto const first = result(0);
    for (int const rank : gpus_.ranks())
      EXPECT_TRUE(first == result(rank)) << what << ": ranks 0 and " << rank << " differ";
  }

 private:
  static WholeAttention on_first(AttentionProblem const& problem, unsigned seed,
                                 std::vector<int> const& offsets) {
    gpu::Select const current(0);
    return {problem, seed, offsets};
  }
  std::size_t model() const { return static_cast<std::size_t>(problem_.model); }
  std::size_t elements() const { return static_cast<std::size_t>(problem_.tokens) * model(); }
  RowRange own(int rank) const {
    return problem_.rows == Tokens::whole ? RowRange{0, problem_.tokens}
                                          : shard_of(problem_.tokens, gpus_.count(), rank);
  }
  std::size_t first_element(int rank) const { return static_cast<std::size_t>(own(rank).begin) * model(); }
  std::size_t own_elements(int rank) const { return static_cast<std::size_t>(own(rank).rows()) * model(); }
  /// A rank without tokens points behind them.
  PeerMemory memory(std::size_t count, std::size_t size) const {
    return must(PeerMemory::make(gpus_.group, size * count + 16));
  }

  SomeGpus const& gpus_;
  AttentionProblem problem_;
  WholeAttention whole_;
  PeerMemory y_;
  std::vector<PeerMemory> operands_;  ///< x, w_in, w_out, turns, positions, offsets
};

}  // namespace tessera::gemm_collectives
