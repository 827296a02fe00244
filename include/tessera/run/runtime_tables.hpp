// SPDX-License-Identifier: Apache-2.0
// From a plan to what sync/runtime_stage.cuh reads: plain values and two arrays to copy to the device.
#pragma once

#include <cstdint>
#include <vector>

#include "../plan/plan.hpp"
#include "../sync/runtime_stage.cuh"

namespace tessera {

/// A plan's stages for kernels that learn their plan at run time. Make with describe_stages(), copy `numbers`
/// and `waits` to where the kernels run, then call stage() with the addresses of the copies.
struct RuntimeTables {
  std::vector<std::int32_t> numbers;  ///< tile orders, offsets into waits, tickets
  std::vector<RuntimeWait> waits;     ///< of tiles, and tables of RuntimeSets

  /// Stage `index`, with pointers into the copies.
  RuntimeStage stage(int index, std::int32_t const* numbers_at, RuntimeWait const* waits_at) const;
  /// Of launch `index`; no workers where it is a stage's own kernel.
  RuntimeTickets tickets(int index, std::int32_t const* numbers_at) const;

  struct Places {
    std::int64_t order = -1;
    std::int64_t offsets[k_runtime_operands] = {-1, -1, -1, -1};
    std::int64_t operand_waits[k_runtime_operands] = {};
    std::int64_t before_store = -1;
    std::int64_t operand_tables[k_runtime_operands] = {-1, -1, -1, -1};
    std::int64_t post_table = -1;
    std::int64_t further = -1;
  };
  std::vector<RuntimeStage> stages;         ///< pointers null
  std::vector<Places> places;               ///< -1: a null pointer
  std::vector<RuntimeTickets> launches;     ///< pointers null
  std::vector<std::int64_t> ticket_tables;  ///< of launches; -1: a null pointer
};

/// The place of an operand in its stage, which kernels know it by; -1: the stage has none of the name.
int operand_index(Stage const& stage, std::string const& name);

/// Refuses (E0519) a plan that the tables cannot hold: a stage of which more than k_runtime_operands operands
/// are awaited, or 2^31 tiles, waits or semaphores.
/// Precondition: the plan is consistent (choose() made it or parse_plan() accepted it).
Expected<RuntimeTables> describe_stages(Plan const& plan);

}  // namespace tessera
