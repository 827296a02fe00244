// SPDX-License-Identifier: Apache-2.0
// From a loop's plan to what run/loop_worker.cuh and run/loop_launch.cuh read.
#pragma once

#include <string>
#include <vector>

#include "../plan/loop_plan.hpp"
#include "loop_launch.cuh"
#include "loop_worker.cuh"
#include "runtime_tables.hpp"

namespace tessera {

/// Records of a period's stages and the arrays that they point into. Copy the arrays to where the kernel
/// runs, then call records() with the addresses of the copies.
struct LoopTables {
  RuntimeTables tables;
  std::vector<LoopRecord> stages;   ///< their stages' pointers are null
  std::vector<std::int64_t> backs;  ///< of stages, where in the numbers their back_of_stores begins
  long long tickets = 0;            ///< of a period

  std::vector<LoopRecord> records(std::int32_t const* numbers_at, RuntimeWait const* waits_at) const;
  /// Of a launch of no iterations; with_iterations() asks for some.
  LoopTickets launch(LoopPlan const& plan) const;
};

/// A launch's tickets stay below 2^63.
constexpr long long k_most_loop_iterations = (1LL << 31) - 1;

/// The same launch with so many iterations. Refuses (E0116) less than 0 and more than k_most_loop_iterations.
Expected<LoopTickets> with_iterations(LoopTickets tickets, std::string const& loop, long long iterations);

/// A stage's launch in one of the periods that such a number of iterations takes.
LoopLaunch stage_launch(LoopTickets const& tickets, LoopRecord const& record, long long period);

/// Refuses as describe_stages() does (E0519), and operations that are not one for each stage of the body
/// (E0510).
Expected<LoopTables> describe_loop(LoopPlan const& plan);

/// Refuses (E0510) another number of tile functions, or of operations with roles, than the plan names.
/// Precondition: describe_loop() takes the plan.
Expected<void> check_operations(LoopPlan const& plan, std::size_t given);

}  // namespace tessera
