// SPDX-License-Identifier: Apache-2.0
// A stage whose blocks compute many tiles each, for kernels that have a warp for loads and other warps for
// stores: no call has a block barrier. Plans are values, as for RuntimeStageView.
#pragma once

#include "runtime_stage.cuh"

namespace tessera {

/// Blocks of this launch, for kernels whose grid is not their tiles.
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
__device__ inline unsigned launched_blocks() { return gridDim.x * gridDim.y * gridDim.z; }
#endif

/// What a view knows of its launch and remembers from tile to tile: for kernels that cannot keep the view.
struct PersistentProgress {
  unsigned launches = 0;  ///< with this one; 0: not asked yet
  Tile tile;
  bool waited_for_grid = false;
  bool stopped = false;
};

/// One warp's view, or one thread's, of a stage with a persistent grid. Which tiles a block computes is the
/// kernel's affair. Each warp that waits or posts makes a view of its own:
///
///     PersistentStageView<> stage(args.stage, args.memory, launched_blocks());  // args: __grid_constant__
///     if (warp == loader) {
///       for (Tile tile : mine) {
///         stage.take(tile);
///         TileBox const box = ...;                          // the producer's tiles behind this tile's rows
///         for (int k = box.begin[0]; k < box.end[0];) {
///           int const ready = stage.wait_beyond_for_tma<0>(operand_a, box, k);
///           for (; k < ready; ++k) load(k);
///         }
///       }
///     } else {
///       for (Tile tile : mine) { ... stage.post_after_tma_store(tile); }
///     }
///     __syncthreads();
///     if (threadIdx.x == 0) stage.leave();
///
/// The rules: in every launch each tile is posted once by each of its splits, or by one of them for all;
/// every block calls leave() once, after all its waits and posts; all launches have the same number of
/// blocks. Launches that share a ChainMemory do not overlap. G is Group::warp (all 32 lanes call, with the
/// same arguments) or Group::thread.
///
/// Epoch: blocks that have left in all launches, divided by the blocks of one. It cannot change while the
/// asking block has not left.
///
/// Rank: dimensions that the grids of the stage and of its producers have at most. Less code and fewer
/// parameters to fetch before a block's first wait, where the kernel knows it.
template <class Watch = NoWatch, Scope S = Scope::device, int Rank = k_max_rank>
class PersistentStageView {
 public:
  /// `stage` is not copied: it lies in the kernel's __grid_constant__ parameters or in global memory.
  TESSERA_HOST_DEVICE PersistentStageView(RuntimeStage const& stage, ChainMemory const& memory,
                                          LaunchedBlocks launched, Watch const& watch = {},
                                          PersistentProgress const& progress = {})
      : stage_(stage), memory_(memory), watch_(watch), launched_(launched), progress_(progress) {}

  /// To go on with in another view of the same warp.
  TESSERA_HOST_DEVICE PersistentProgress const& progress() const { return progress_; }

  /// For who learns the epoch by other means: a worker's ticket (draw_next).
  TESSERA_HOST_DEVICE void begin(unsigned epoch) { progress_.launches = epoch + 1; }

  /// Number of this launch, from 0. The first call of a view is a load from the L2, which later ones
  /// remember. Called by any thread before its block's leave(); waits and plain-store posts call it by
  /// themselves.
  TESSERA_HOST_DEVICE unsigned block_epoch() {
    if (progress_.launches == 0) begin(launched_.launches(load_counter(left())));
    return progress_.launches - 1;
  }

  /// The tile that the next waits are for: what wait_all() looks up and reports name. One outside of the grid
  /// stands for the last one inside.
  TESSERA_HOST_DEVICE void take(Tile const& tile) { progress_.tile = tile; }

  /// A watch gave up: what the last wait was for is not there. Leave, or go through the motions so that
  /// other warps of the block can leave; the host learns it from the record.
  TESSERA_HOST_DEVICE bool stopped() const { return progress_.stopped; }

  /// May the producer's tile be read? One look (acquire), no waiting; true for an operand without a
  /// producer. Where the launches before must be complete, true once a wait has been called.
  template <Group G = Group::warp, int I>
  TESSERA_HOST_DEVICE bool test(OperandIndex<I>, Tile const& producer) {
    auto const& operand = stage_.operand[I];
    if (!ordered_already(operand)) return false;
    if (!operand.has_set) return true;
    bool ok = true;
    if (is_leader<G>()) ok = is_met(operand.set.template at<Rank>(producer));
    return group_all<G>(ok);
  }

  /// Waits until the producer's tile may be read by ordinary loads of the group's threads. Returns false if
  /// a watch gave up.
  template <Group G = Group::warp, int I>
  TESSERA_HOST_DEVICE bool wait(OperandIndex<I>, Tile const& producer) {
    auto const& operand = stage_.operand[I];
    wait_for_launch(operand);
    if (!operand.has_set) return true;
    return conclude<G>(!is_leader<G>() || wait_until_met(operand.set.template at<Rank>(producer)));
  }

  /// The same for all that the tile of the last take() reads through the operand: the group's threads look
  /// side by side.
  template <Group G = Group::warp, int I>
  TESSERA_HOST_DEVICE bool test_all(OperandIndex<I>) {
    auto const& operand = stage_.operand[I];
    if (!ordered_already(operand)) return false;
    if (operand.offsets == nullptr) return true;
    return group_all<G>(for_each_wait<G>(operand, [&](RuntimeWait const& wait) { return is_met(wait); }));
  }
  template <Group G = Group::warp, int I>
  TESSERA_HOST_DEVICE bool wait_all(OperandIndex<I>) {
    auto const& operand = stage_.operand[I];
    wait_for_launch(operand);
    if (operand.offsets == nullptr) return true;
    return conclude<G>(
        for_each_wait<G>(operand, [&](RuntimeWait const& wait) { return wait_until_met(wait); }));
  }

  /// Waits until the tile of the last take() may be computed as a whole: what it reads through operand i is
  /// there, for each bit i of `operands`, and nobody reads any more what the stage overwrites. Less code than
  /// a wait for each.
  template <Group G = Group::warp>
  TESSERA_HOST_DEVICE bool wait_whole(unsigned operands) {
    if (stage_.stores_after_grid && !progress_.waited_for_grid) wait_for_grid();
    bool ok = true;
#if defined(__CUDA_ARCH__)
#pragma unroll 1
#endif
    for (int o = 0; o <= k_runtime_operands && ok; ++o) {
      RuntimeWait const* waits = stage_.before_store;
      int count = stage_.before_stores;
      if (o < k_runtime_operands) {
        if ((operands >> o & 1u) == 0) continue;
        auto const& operand = stage_.operand[o];
        wait_for_launch(operand);
        if (operand.offsets == nullptr) continue;
        int const* const offsets = operand.offsets + linear();
        waits = operand.waits + offsets[0];
        count = offsets[1] - offsets[0];
      }
      for (int i = share_of<G>().first; i < count && ok; i += share_of<G>().step)
        ok = wait_until_met(waits[i]);
    }
    return conclude<G>(ok);
  }

  /// A box of producer tiles that is read along one dimension, such as the depth of a GEMM: up to which
  /// coordinate it is ready, where it is known to be ready below `from`. One look, no waiting; 32 runs of
  /// tiles that share a semaphore at a time. For operands of one dependence, box inside the producer's grid.
  template <int Along, Group G = Group::warp, int I>
  TESSERA_HOST_DEVICE int ready(OperandIndex<I> operand, TileBox const& box, int from) {
    return ready_or_wait<Along, G>(operand, box, from, false);
  }

  /// The same, but waits until the box is ready beyond `from`. All of it, if a watch gave up: see stopped().
  template <int Along, Group G = Group::warp, int I>
  TESSERA_HOST_DEVICE int wait_beyond(OperandIndex<I> operand, TileBox const& box, int from) {
    return ready_or_wait<Along, G>(operand, box, from, true);
  }

  /// One of the two, as `waits` says: in less code than both.
  template <int Along, Group G = Group::warp, int I>
  TESSERA_HOST_DEVICE int ready_or_wait(OperandIndex<I>, TileBox const& box, int from, bool waits) {
    auto const& operand = stage_.operand[I];
    if (!waits && !ordered_already(operand)) return from;
    wait_for_launch(operand);
    if (!operand.has_set) return box.end[Along];
    return look_along<Along, G>(operand.set, box, from, waits);
  }

  /// As wait(), wait_all() and wait_beyond(), for threads that then read through TMA: with the proxy fence,
  /// which test(), test_all() and ready() leave to the caller.
  template <Group G = Group::warp, int I>
  TESSERA_HOST_DEVICE bool wait_for_tma(OperandIndex<I> operand, Tile const& producer) {
    bool const ok = wait<G>(operand, producer);
    fence_proxy_async();
    return ok;
  }
  template <Group G = Group::warp, int I>
  TESSERA_HOST_DEVICE bool wait_all_for_tma(OperandIndex<I> operand) {
    bool const ok = wait_all<G>(operand);
    fence_proxy_async();
    return ok;
  }
  template <int Along, Group G = Group::warp, int I>
  TESSERA_HOST_DEVICE int wait_beyond_for_tma(OperandIndex<I> operand, TileBox const& box, int from) {
    int const to = wait_beyond<Along, G>(operand, box, from);
    fence_proxy_async();
    return to;
  }

  /// Says that a tile is complete: release at scope S. Called by the group after its last store, and after
  /// the stores of all other threads that it has synchronized with. `splits`: for so many splits of the tile
  /// at once, by the one that adds their sums. Tiles outside of the grid, which pad a cluster, are nobody's.
  template <Group G = Group::warp>
  TESSERA_HOST_DEVICE void post(Tile const& tile, unsigned splits = 1) {
    group_barrier<G>();
    if (!is_leader<G>() || !inside(tile) || stage_.posts == 0) return;
    detail::post_tile<S, Rank>(stage_, memory_, tile, stage_.plain_store ? block_epoch() : 0, splits);
  }

  /// The same for tiles that the group's own threads stored through TMA. Returns when these stores are
  /// complete.
  template <Group G = Group::warp>
  TESSERA_HOST_DEVICE void post_after_tma_store(Tile const& tile, unsigned splits = 1) {
    wait_for_tma_stores();
    post<G>(tile, splits);
  }

  /// The block's last call, by one thread, behind the waits and posts of all its threads.
  TESSERA_HOST_DEVICE void leave() {
    // Completion stays transitive: when this kernel is complete, so are all before it.
    if (stage_.completes_after_previous) pdl_wait();
    if (stage_.start == Start::block_index && stage_.needs_epoch) count_one(left());
  }

 private:
  TESSERA_HOST_DEVICE unsigned long long* left() const {
    return detail::counter(memory_, stage_.index, detail::Counter::left);
  }
  TESSERA_HOST_DEVICE unsigned target_of(unsigned posts) { return (block_epoch() + 1u) * posts; }
  /// Computed where it is needed: a number to keep through all waits would be a register.
  TESSERA_HOST_DEVICE int linear() const {
    int linear = 0;
    for (int d = Rank - 1; d >= 0; --d) {
      int const extent = stage_.grid.extent[d];
      linear = linear * extent + smaller_of(progress_.tile.at[d], extent - 1);
    }
    return linear;
  }
  /// A place that is computed where a report is written.
  struct PlaceLater {
    PersistentStageView const& view;
    int semaphore;
    TESSERA_HOST_DEVICE operator WaitPlace() const { return view.place(semaphore); }  // NOLINT: is one
  };
  TESSERA_HOST_DEVICE WaitPlace place(int semaphore) const { return {stage_.index, linear(), semaphore}; }
  TESSERA_HOST_DEVICE bool inside(Tile const& tile) const {
    for (int d = 0; d < Rank; ++d)
      if (tile.at[d] < 0 || tile.at[d] >= stage_.grid.extent[d]) return false;
    return true;
  }

  // Operands of which a producer is known to be complete only by the end of the launches before.
  TESSERA_HOST_DEVICE bool ordered_already(RuntimeOperand const& operand) const {
    return !operand.waits_for_grid || progress_.waited_for_grid;
  }
  TESSERA_HOST_DEVICE void wait_for_launch(RuntimeOperand const& operand) {
    if (!ordered_already(operand)) wait_for_grid();
  }

  TESSERA_HOST_DEVICE void wait_for_grid() {
    pdl_wait();
    progress_.waited_for_grid = true;
  }

  template <Group G>
  TESSERA_HOST_DEVICE bool conclude(bool ok) {
    ok = together<G, Watch>(ok);
    progress_.stopped = progress_.stopped || !ok;
    return ok;
  }

  TESSERA_HOST_DEVICE bool is_met(RuntimeWait const& wait) {
    return reached(load_acquire<S>(memory_.semaphores + wait.semaphore), target_of(wait.posts));
  }
  TESSERA_HOST_DEVICE bool wait_until_met(RuntimeWait const& wait) {
    return wait_until<S>(memory_.semaphores + wait.semaphore, target_of(wait.posts), watch_,
                         place(wait.semaphore));
  }

  template <Group G, class Met>
  TESSERA_HOST_DEVICE bool for_each_wait(RuntimeOperand const& operand, Met const& met) const {
    int const* const offsets = operand.offsets + linear();
    int const last = offsets[1];
    for (int i = offsets[0] + share_of<G>().first; i < last; i += share_of<G>().step)
      if (!met(operand.waits[i])) return false;
    return true;
  }

  /// To the next tile of the box with the same coordinate along the dimension and another semaphore. False:
  /// there is none, and it is the first one again.
  template <int Along>
  TESSERA_HOST_DEVICE static bool go_across(RuntimeSet const& set, TileBox const& box, Tile& tile) {
    for (int d = 0; d < Rank; ++d) {
      if (d == Along) continue;
      tile.at[d] = set.run_after(d, tile.at[d], 1, box.end[d]);
      if (tile.at[d] < box.end[d]) return true;
      tile.at[d] = box.begin[d];
    }
    return false;
  }

  // One loop, in which what a poll needs is computed anew: a warp that loads has few registers, and code is
  // fetched cold.
  template <int Along, Group G>
  TESSERA_HOST_DEVICE int look_along(RuntimeSet const& set, TileBox const& box, int from, bool waits) {
    int const end = box.end[Along];
    unsigned const launches = block_epoch() + 1u;
    Tile tile;
    for (int d = 0; d < Rank; ++d) tile.at[d] = box.begin[d];
    auto patience = watch_.begin();
    while (from < end) {
      int const mine = share_of<G>().first;
      tile.at[Along] = mine == 0 ? from : set.run_after(Along, from, mine, end);
      bool ok = tile.at[Along] >= end;
      RuntimeWait wait{};
      unsigned seen = 0;
      while (!ok) {
        wait = set.template at<Rank>(tile);
        seen = load_acquire<S>(memory_.semaphores + wait.semaphore);
        if (!reached(seen, launches * wait.posts)) break;
        ok = !go_across<Along>(set, box, tile);
      }
      int const members = leading_members<G>(ok);
      if (members > 0) {
        from = set.run_after(Along, from, members, end);
        for (int d = 0; d < Rank; ++d) tile.at[d] = box.begin[d];
        // More than this is a bonus: it is not waited for.
        waits = false;
        if (members < share_of<G>().step) break;
      } else if (!waits) {
        break;
      } else if constexpr (Watch::may_stop) {
        if (!group_all<G>(
                mine != 0 || ok ||
                watch_.go_on(patience, PlaceLater{*this, wait.semaphore}, seen, launches * wait.posts))) {
          progress_.stopped = true;
          return end;
        }
      }
    }
    group_barrier<G>();
    return from;
  }
  TESSERA_HOST_DEVICE static constexpr int smaller_of(int a, int b) { return a < b ? a : b; }

  RuntimeStage const& stage_;
  ChainMemory memory_;
  Watch watch_;
  LaunchedBlocks launched_;
  PersistentProgress progress_;
};

}  // namespace tessera
