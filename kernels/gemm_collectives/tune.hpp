// SPDX-License-Identifier: Apache-2.0
// Which way and which kernels are fastest for a product with its collective, by measuring.
#pragma once

#include <deque>

#include "kernels/gemm_collectives/gang.hpp"
#include "kernels/gemm_collectives/gemm_collective.hpp"

namespace tessera::gemm_collectives {

/// Operands of all ranks with random numbers, in sets that are used by turns.
class OperandRing {
 public:
  /// As many sets as it takes to hold more than the caches, 2 to `most`. Throws where CUDA fails.
  OperandRing(std::shared_ptr<PeerGroup> const& group, Problem const& problem, int most);
  int count() const { return count_; }
  std::vector<Operands> of(int set) const;

 private:
  int ranks_ = 0, count_ = 0;
  std::deque<PeerMemory> memory_;
};

struct Tried {
  Options options;
  std::string name;  ///< GemmCollective::name()
  double us = 0;     ///< median of one call, of graphs on operands in turns, the longest of the ranks
};

struct TuneOptions {
  int rounds = 5;
  int calls = 6;  ///< in a graph
};

/// Options that are worth a try, of one way.
std::vector<Options> options_to_try(Problem const& problem, Way way);

/// Measures every way, with cuBLASLt and NCCL in sequence among them where NCCL is, and returns all that ran,
/// the fastest first. E0511 where CUDA fails; what refuses to be made is left out.
Expected<std::vector<Tried>> tune(std::shared_ptr<PeerGroup> const& group, Problem problem,
                                  TuneOptions const& options = {});
/// The same with what is there. Throws.
std::vector<Tried> tune(std::shared_ptr<PeerGroup> const& group, Problem const& problem,
                        TuneOptions const& options, Gang& gang, OperandRing const& operands);

}  // namespace tessera::gemm_collectives
