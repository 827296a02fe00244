// SPDX-License-Identifier: Apache-2.0
// A loop as one persistent launch of operations with roles: warps that load run ahead of those that compute,
// over the ends of tiles, stages and iterations. For files that nvcc compiles (C++20, sm_90).
//
//   auto const plan = plan_loop(loop, machine, machine.sms);   // a block on each SM
//   auto chain = role_chain(*plan, {.rings = {7, 24576, 2, 0, 8, 4096}}, Product{...}, softmax);
//   chain->launch(stream, 1000);
#pragma once

#include <optional>

#include "../plan/check_rings.hpp"
#include "../plan/deal.hpp"
#include "role_kernel.cuh"
#include "run_loop.hpp"

namespace tessera {

/// Which block computes which tile.
enum class Dealing {
  lists,  ///< each block has its own list, made ahead: what it loads is known before it has computed
  queue,  ///< blocks draw the next tile, for tiles whose lengths depend on data
};

struct RoleOptions {
  RoleRings rings;
  Dealing dealing = Dealing::lists;
  /// For lists: bytes that a tile of each stage of the body loads early, by which they are evened out; empty:
  /// all tiles are alike.
  std::vector<long long> tile_bytes = {};
  /// Stages of the body whose tiles wait for one another within an iteration. Each has at most as many tiles
  /// as there are workers, and no worker gets two of them; for lists only.
  std::vector<int> meeting_stages = {};
  ChainOptions chain = {};
  /// Blocks with neighbouring numbers that form a cluster, for operations that exchange data inside it
  /// (RoleComputer::next_exchange()). 1: there are none. Workers are a multiple of it; for lists only.
  int cluster_blocks = 1;
  /// The launch starts before the launch before it in the stream is complete, and loads early what that one
  /// does not write. What is loaded early must have been complete before the launch before began.
  bool starts_early = false;
  /// As StageKernel::reset: after a stall, for memory of the operations that counts from launch to launch.
  std::function<int(GpuStream)> reset = {};
  std::function<int(GpuStream)> before = {};  ///< as StageKernel::before
  std::optional<MissedTile> missed = {};      ///< for lists only
};

/// Refuses (E0564) bytes of tiles that are not one number for each of so many stages, from 0 to
/// k_most_tile_bytes, and the same for a queue, which has no use for them.
Expected<void> check_dealing(Dealing dealing, std::vector<long long> const& tile_bytes, std::size_t stages,
                             SourceLine const& where);
/// Refuses (E0564) stages whose tiles wait for one another, where the body has no such stage, or it has more
/// tiles than there are workers, or blocks draw their tiles.
Expected<void> check_meeting(std::vector<int> const& meeting_stages, Dealing dealing, LoopPlan const& plan);
/// Refuses (E0564) a tile to be missed that there is not, beyond iteration 1023, or where blocks draw tiles.
Expected<void> check_missed(std::optional<MissedTile> const& missed, Dealing dealing, LoopPlan const& plan);
/// Refuses (E0564) clusters of fewer than 1 or more than 8 blocks, of a queue, or that do not divide so many
/// workers.
Expected<void> check_cluster(int cluster_blocks, Dealing dealing, int workers, SourceLine const& where);
/// Refuses (E0564) lists in which blocks of a cluster do not compute neighbouring tiles of a stage at the
/// same places, the first of them a multiple of the cluster: they exchange data while they do.
Expected<void> check_neighbours(DealtTables const& dealt, int cluster_blocks, SourceLine const& where);
/// Lists for the launch of a plan. Precondition: check_dealing().
DealtTables deal(LoopPlan const& plan, LoopTables const& tables, RoleOptions const& options);
/// Refuses (E0510) a plan that is not one persistent launch.
Expected<void> check_persistent(LoopPlan const& plan);

}  // namespace tessera

#if defined(__CUDACC__)

namespace tessera {

namespace detail {

template <class Operation>
constexpr int argument_bytes() {
  if constexpr (has_roles<Operation>(0)) {
    static_assert(sizeof(typename Operation::Arguments) % 8 == 0, "arguments are copied 8 bytes at a time");
    static_assert(alignof(typename Operation::Arguments) <= 8, "a job's arguments are 8-byte aligned");
    return static_cast<int>(sizeof(typename Operation::Arguments));
  } else {
    return 0;
  }
}
template <class Operation>
void const* arguments_of(Operation const& operation, int stage) {
  if constexpr (has_roles<Operation>(0)) return operation.arguments(stage);
  return nullptr;
}

/// What the launch says of each stage of the period.
template <class... Operation>
std::vector<RoleStage> role_stages(LoopTables const& tables, Operation const&... operations) {
  std::vector<RoleStage> result;
  for (std::size_t s = 0; s < tables.stages.size(); ++s) {
    auto const& record = tables.stages[s];
    RoleStage stage;
    int number = 0;
    ((number++ == record.operation ? (stage.arguments = arguments_of(operations, record.body_stage),
                                      stage.argument_bytes = argument_bytes<Operation>())
                                   : 0),
     ...);
    stage.iteration = record.iteration;
    result.push_back(stage);
  }
  return result;
}

}  // namespace detail

/// An operation for each stage of the loop's body, or for each of LoopPlan::operations: one with roles, or a
/// tile function. Refuses as loop_chain() does, and E0564.
template <class... Operation>
Expected<LoopChain> role_chain(LoopPlan const& plan, RoleOptions const& options,
                               Operation const&... operations) {
  static_assert((detail::says_threads<Operation>(0) && ...),
                "a tile function among roles says how many threads it wants: static constexpr int threads");
  if (auto ok = check_persistent(plan); !ok) return tl::make_unexpected(ok.error());
  auto rings = options.rings;
  rings.scratch_bytes = std::max({rings.scratch_bytes, detail::shared_bytes_of<Operation>(0)...});
  if (auto ok = check_rings(rings, std::max({detail::argument_bytes<Operation>()...}), plan.loop.body.where);
      !ok)
    return tl::make_unexpected(ok.error());
  if (auto ok = check_dealing(options.dealing, options.tile_bytes, plan.loop.body.stages.size(),
                              plan.loop.body.where);
      !ok)
    return tl::make_unexpected(ok.error());
  if (auto ok = check_meeting(options.meeting_stages, options.dealing, plan); !ok)
    return tl::make_unexpected(ok.error());
  if (auto ok = check_missed(options.missed, options.dealing, plan); !ok)
    return tl::make_unexpected(ok.error());
  if (auto ok = check_cluster(options.cluster_blocks, options.dealing, plan.plan.launches.front().workers,
                              plan.loop.body.where);
      !ok)
    return tl::make_unexpected(ok.error());
  auto const tables = describe_loop(plan);
  if (!tables) return tl::make_unexpected(tables.error());
  if (auto ok = check_operations(plan, sizeof...(Operation)); !ok) return tl::make_unexpected(ok.error());
  auto const records = records_on_device(*tables);
  if (!records) return tl::make_unexpected(records.error());
  auto const tickets = std::make_shared<LoopTickets>(tables->launch(plan));
  std::vector<StageKernel> kernels;
  auto planned = plan.plan;
  auto const stages = detail::role_stages(*tables, operations...);
  auto const stages_at =
      copy_on_device(stages.data(), stages.size() * sizeof(RoleStage), "a launch's stages");
  if (!stages_at) return tl::make_unexpected(stages_at.error());
  auto const dealt = deal(plan, *tables, options);
  if (auto ok = check_neighbours(dealt, options.cluster_blocks, plan.loop.body.where); !ok)
    return tl::make_unexpected(ok.error());
  auto const tiles_at =
      copy_on_device(dealt.tiles.data(), dealt.tiles.size() * sizeof(DealtTile), "lists of tiles");
  if (!tiles_at) return tl::make_unexpected(tiles_at.error());
  auto const lists = dealt.lists(static_cast<DealtTile const*>(tiles_at->get()));
  StageKernel kernel;
  kernel.function = reinterpret_cast<void const*>(&role_kernel<DeadlineWatch<>, Operation...>);
  kernel.block.x =
      static_cast<unsigned>(detail::compute_threads<Operation...>() + 32 * detail::k_role_loader_warps);
  kernel.dynamic_shared_bytes = shared_bytes_of(rings);
  kernel.cluster.x = options.cluster_blocks;
  // One block on an SM: a block that waits for the launch before must not share its SM with one of it.
  constexpr int half_an_sm = 116 * 1024;
  if (options.starts_early) kernel.dynamic_shared_bytes = std::max(kernel.dynamic_shared_bytes, half_an_sm);
  kernel.chains = options.starts_early;
  // A block does its own list, whatever the others have done.
  kernel.all_resident = options.dealing == Dealing::lists;
  kernel.reset = options.reset;
  kernel.before = options.before;
  if (options.starts_early) planned.launches.front().start = LaunchStart::early;
  auto const packed = detail::pack_of(operations...);
  kernel.pack = [packed, tickets, rings, lists, on_device = *records, stages_at = *stages_at,
                 owner = *tiles_at](ChainViews const& views, KernelArguments& arguments) {
    arguments.add(RoleLaunch{on_device.records.get(), static_cast<RoleStage const*>(stages_at.get()), lists});
    arguments.add(*tickets);
    arguments.add(views.memory);
    arguments.add(views.watch());
    arguments.add(rings);
    arguments.add(packed);
  };
  kernels.push_back(std::move(kernel));
  auto chain = Chain::make(planned, kernels, options.chain);
  if (!chain) return tl::make_unexpected(chain.error());
  return LoopChain(std::move(*chain), tickets);
}

}  // namespace tessera

#endif
