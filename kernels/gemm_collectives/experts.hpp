// SPDX-License-Identifier: Apache-2.0
// Experts that are spread over the GPUs: each rank's tokens go to the ranks of their experts, whose products
// follow. How many go to which expert only the GPU knows.
//
//   auto product = ExpertsProduct::make(group, {64, 256, 4096, 2048});   // experts, capacity, columns, depth
//   product->run({{rows0, counts0, b0, d0, come0}, {rows1, counts1, b1, d1, come1}}, {stream0, stream1});
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/gemm_collectives/gemm_collective.hpp"

namespace tessera::gemm_collectives {

/// A rank has experts / ranks of them, the first ones rank 0. For each expert and each rank that sends to it
/// there is a slot of `capacity` rows: what a rank sends is cut off there, and finish() says so (E0581).
/// Products are of whole slots.
struct ExpertsProblem {
  int experts = 0;
  int capacity = 0;
  int columns = 0;
  int depth = 0;
  ElementType type = ElementType::bf16;
  int ranks = 2;

  int local_experts() const { return experts / ranks; }
  /// Of d, for each expert.
  int slot_rows() const { return ranks * capacity; }
  auto operator<=>(ExpertsProblem const&) const = default;
};

/// "all_to_all_gemm of 64 experts, 256 x 4096 x 2048, on 2 GPUs".
std::string to_string(ExpertsProblem const& problem);
/// Refuses (E0581) what does not divide, and what no kernel is for.
Expected<void> check_problem(ExpertsProblem const& problem);

/// Of one rank, in its GPU's memory; matrices 16-byte aligned.
struct ExpertsOperands {
  void const* rows = nullptr;   ///< [sum of counts][depth], those for expert 0 first
  int const* counts = nullptr;  ///< [experts]: how many of them are for each, 0 to `capacity`
  void const* b = nullptr;      ///< [local experts][columns][depth]
  void* d = nullptr;            ///< [local experts][ranks][capacity][columns]: rows that came, then others
  int* come = nullptr;          ///< [local experts][ranks]: how many came
};

/// Of GPUs of one process. Where they do not reach each other, by NCCL: all slots, full or not.
class ExpertsProduct {
 public:
  /// E0581 for sizes that cannot be and for several processes, E0583 where NCCL is needed and is not there,
  /// E0533, E0511. `in_sequence`: by NCCL although they reach each other.
  static Expected<ExpertsProduct> make(std::shared_ptr<PeerGroup> group, ExpertsProblem problem,
                                       bool in_sequence = false, double deadline_seconds = 2);

  /// Enqueues the parts of all ranks, each on its stream, behind all that the group's products have enqueued.
  /// May be captured. E0581 for operands that are missing, not aligned, or in other memory; E0582, and
  /// nothing is enqueued, where a launch before has stalled, until finish() was called.
  Expected<void> run(std::vector<ExpertsOperands> const& operands, std::vector<cudaStream_t> const& streams);
  /// Waits for the group's GPUs. E0582 if a wait met its deadline, after which all ranks begin anew; E0581 if
  /// more rows than a slot has were sent since the last finish().
  Expected<void> finish();

  std::string name() const;

 private:
  struct State;
  explicit ExpertsProduct(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

}  // namespace tessera::gemm_collectives
