// SPDX-License-Identifier: Apache-2.0
// Operands and results of a tensor-parallel attention block on several GPUs of this process.
#pragma once

#include "block_case.hpp"
#include "whole_attention.hpp"

namespace tessera::gemm_collectives {

class AttentionCase {
 public:
  AttentionCase(SomeGpus const& gpus, AttentionProblem const& problem, unsigned seed = 1,
                std::vector<int> const& offsets = {})
      : gpus_(gpus),
        problem_(problem),
        whole_(on_first(problem, seed, offsets)),
        y_(gpus, problem.tokens, problem.model, problem.rows) {
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
      one.x = static_cast<unsigned short const*>(at(0)) + y_.first_element(rank);
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
  void poison() const { y_.poison(); }
  BlockResult::Bits result(int rank) const { return y_.bits(rank); }
  void expect_right(std::string const& what) const {
    y_.expect_right(what,
                    [&](int rank) { return whole_.error(y_.at(rank), y_.own(rank), gpus_.stream(rank)); });
  }

 private:
  static WholeAttention on_first(AttentionProblem const& problem, unsigned seed,
                                 std::vector<int> const& offsets) {
    gpu::Select const current(0);
    return {problem, seed, offsets};
  }
  /// A rank without tokens points behind them.
  PeerMemory memory(std::size_t count, std::size_t size) const {
    return must(PeerMemory::make(gpus_.group, size * count + 16));
  }

  SomeGpus const& gpus_;
  AttentionProblem problem_;
  WholeAttention whole_;
  BlockResult y_;
  std::vector<PeerMemory> operands_;  ///< x, w_in, w_out, turns, positions, offsets
};

}  // namespace tessera::gemm_collectives
