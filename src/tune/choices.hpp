// SPDX-License-Identifier: Apache-2.0
// What a tuner varies of a plan for operators, and the plans that follow from it.
#pragma once

#include <string>
#include <vector>

#include "tessera/describe/workload.hpp"
#include "tessera/measure/machine_profile.hpp"
#include "tessera/plan/build.hpp"

namespace tessera {

/// How one operator is computed.
struct StageChoice {
  TileChoice tile;
  StageRecipe how;
  std::string variant;

  bool is_library() const { return tile.kernel.library; }
};

/// Choice::columns_per_semaphore where all tiles of a row share a semaphore.
constexpr int k_whole_row = 0;

/// One way to compute a chain.
struct Choice {
  std::vector<StageChoice> stages;
  Mechanism mechanism = Mechanism::stream_order;
  int columns_per_semaphore = 1;  ///< neighbouring tiles of a row that share one; k_whole_row: all
  bool early_loads = false;
  bool chained = false;
};

/// The plan, proved; refusals as tile()'s, check()'s and build_plan()'s.
Expected<Plan> plan_of(OperatorGraph const& graph, Choice const& choice, MachineProfile const& machine);

/// One of the operators alone: what others wrote is its input.
OperatorGraph alone(OperatorGraph const& graph, std::size_t index);

/// Kernels of the registry that can compute the graph's operator `index` on this machine; libraries' too.
std::vector<TileChoice> kernels_for(OperatorGraph const& graph, std::size_t index, Registry const& kernels,
                                    MachineProfile const& machine);

/// E0305: none of the registered kernels computes it.
Diagnostics no_kernel(Operator const& op, MachineProfile const& machine);

/// All combinations of one of each list, at most `most`: beyond that the first of each list, and with these
/// every other of each list.
std::vector<std::vector<StageChoice>> combinations(std::vector<std::vector<StageChoice>> const& lists,
                                                   std::size_t most);

/// "cublaslt", "gemm_sm90", "cublaslt + gemm_sm90": whose kernels compute a plan.
std::string families_of(Plan const& plan, Registry const& kernels);
/// Every stage by a library's kernel.
bool is_library_plan(Plan const& plan, Registry const& kernels);

}  // namespace tessera
