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
/// The rules: in every launch each tile is posted once, by each of its splits; every block calls leave()
/// once, after all its waits and posts; all launches have the same number of blocks. Launches that share a
/// ChainMemory do not overlap. G is Group::warp (all 32 lanes call, with the same arguments) or
/// Group::thread.
///
/// Epoch: blocks that have left in all launches, divided by the blocks of one. It cannot change while the
/// asking block has not left.
template <class Watch = NoWatch, Scope S = Scope::device>
class PersistentStageView {
 public:
  /// `stage` is not copied: it lies in the kernel's __grid_constant__ parameters or in global memory.
  TESSERA_HOST_DEVICE PersistentStageView(RuntimeStage const& stage, ChainMemory const& memory,
                                          unsigned launched, Watch const& watch = {})
      : stage_(stage), memory_(memory), watch_(watch), launched_(launched) {}

  /// For who learns the epoch by other means: a worker's ticket (draw_next).
  TESSERA_HOST_DEVICE void begin(unsigned epoch) {
    epoch_ = epoch;
    knows_epoch_ = true;
  }

  /// Number of this launch, from 0. The first call of a view is a load from the L2, which later ones
  /// remember. Called by any thread before its block's leave(); waits and plain-store posts call it by
  /// themselves.
  TESSERA_HOST_DEVICE unsigned block_epoch() {
    if (!knows_epoch_) begin(static_cast<unsigned>(load_counter(left()) / launched_));
    return epoch_;
  }

  /// The tile that the next waits are for: what wait_all() looks up and reports name.
  TESSERA_HOST_DEVICE void take(Tile const& tile) { linear_ = linear_of(stage_.grid, tile); }

  /// A watch gave up: what the last wait was for is not there. Leave, or go through the motions so that
  /// other warps of the block can leave; the host learns it from the record.
  TESSERA_HOST_DEVICE bool stopped() const { return stopped_; }

  /// May the producer's tile be read? One look (acquire), no waiting; true for an operand without a
  /// producer. Where the launches before must be complete, true once a wait has been called.
  template <Group G = Group::warp, int I>
  TESSERA_HOST_DEVICE bool test(OperandIndex<I>, Tile const& producer) {
    auto const& operand = stage_.operand[I];
    if (!ordered_already(operand)) return false;
    if (!operand.has_set) return true;
    Look look = first_look(operand.set, producer);
    bool ok = true;
    if (is_leader<G>()) ok = see(look);
    return group_all<G>(ok);
  }

  /// Waits until the producer's tile may be read by ordinary loads of the group's threads. Returns false if
  /// a watch gave up.
  template <Group G = Group::warp, int I>
  TESSERA_HOST_DEVICE bool wait(OperandIndex<I>, Tile const& producer) {
    auto const& operand = stage_.operand[I];
    wait_for_launch(operand);
    if (!operand.has_set) return true;
    Look look = first_look(operand.set, producer);
    return conclude<G>(!is_leader<G>() || wait_until<S>(memory_.semaphores + look.semaphore, look.target,
                                                        watch_, place(look.semaphore)));
  }

  /// The same for all that the tile of the last take() reads through the operand: the group's threads look
  /// side by side.
  template <Group G = Group::warp, int I>
  TESSERA_HOST_DEVICE bool test_all(OperandIndex<I>) {
    auto const& operand = stage_.operand[I];
    if (!ordered_already(operand)) return false;
    if (operand.offsets == nullptr) return true;
    return group_all<G>(for_each_wait<G>(operand, [&](RuntimeWait const& wait) {
      return reached(load_acquire<S>(memory_.semaphores + wait.semaphore), target_of(wait.posts));
    }));
  }
  template <Group G = Group::warp, int I>
  TESSERA_HOST_DEVICE bool wait_all(OperandIndex<I>) {
    auto const& operand = stage_.operand[I];
    wait_for_launch(operand);
    if (operand.offsets == nullptr) return true;
    return conclude<G>(for_each_wait<G>(operand, [&](RuntimeWait const& wait) {
      return wait_until<S>(memory_.semaphores + wait.semaphore, target_of(wait.posts), watch_,
                           place(wait.semaphore));
    }));
  }

  /// A box of producer tiles that is read along one dimension, such as the depth of a GEMM: up to which
  /// coordinate it is ready, where it is known to be ready below `from`. One look, no waiting; 32 runs of
  /// tiles that share a semaphore at a time. For operands of one dependence, box inside the producer's grid.
  template <int Along, Group G = Group::warp, int I>
  TESSERA_HOST_DEVICE int ready(OperandIndex<I>, TileBox const& box, int from) {
    auto const& operand = stage_.operand[I];
    if (!ordered_already(operand)) return from;
    if (!operand.has_set) return box.end[Along];
    return look_along<Along, G, false>(operand.set, box, from);
  }

  /// The same, but waits until the box is ready beyond `from`. All of it, if a watch gave up: see stopped().
  template <int Along, Group G = Group::warp, int I>
  TESSERA_HOST_DEVICE int wait_beyond(OperandIndex<I>, TileBox const& box, int from) {
    auto const& operand = stage_.operand[I];
    wait_for_launch(operand);
    if (!operand.has_set) return box.end[Along];
    return look_along<Along, G, true>(operand.set, box, from);
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
  /// the stores of all other threads that it has synchronized with. Tiles outside of the grid, which pad a
  /// cluster, are nobody's.
  template <Group G = Group::warp>
  TESSERA_HOST_DEVICE void post(Tile const& tile) {
    group_barrier<G>();
    if (is_leader<G>() && inside(tile))
      detail::post_to_sets<S>(stage_, memory_, tile, stage_.plain_store ? block_epoch() : 0);
  }

  /// The same for tiles that the group's own threads stored through TMA. Returns when these stores are
  /// complete.
  template <Group G = Group::warp>
  TESSERA_HOST_DEVICE void post_after_tma_store(Tile const& tile) {
    wait_for_tma_stores();
    post<G>(tile);
  }

  /// The block's last call, by one thread, behind the waits and posts of all its threads.
  TESSERA_HOST_DEVICE void leave() {
    // Completion stays transitive: when this kernel is complete, so are all before it.
    if (stage_.completes_after_previous) pdl_wait();
    if (stage_.start == Start::block_index && stage_.needs_epoch) count_one(left());
  }

 private:
  /// What a thread looks at: a semaphore of the producer's tile `tile`, and what it saw.
  struct Look {
    Tile tile;
    int semaphore = 0;
    unsigned target = 0;
    unsigned seen = 0;
  };

  TESSERA_HOST_DEVICE unsigned long long* left() const {
    return detail::counter(memory_, stage_.index, detail::Counter::left);
  }
  TESSERA_HOST_DEVICE unsigned target_of(unsigned posts) { return (block_epoch() + 1u) * posts; }
  TESSERA_HOST_DEVICE WaitPlace place(int semaphore) const { return {stage_.index, linear_, semaphore}; }
  TESSERA_HOST_DEVICE bool inside(Tile const& tile) const {
    for (int d = 0; d < k_max_rank; ++d)
      if (tile.at[d] < 0 || tile.at[d] >= stage_.grid.extent[d]) return false;
    return true;
  }

  // Operands of which a producer is known to be complete only by the end of the launches before.
  TESSERA_HOST_DEVICE bool ordered_already(RuntimeOperand const& operand) const {
    return !operand.waits_for_grid || waited_for_grid_;
  }
  TESSERA_HOST_DEVICE void wait_for_launch(RuntimeOperand const& operand) {
    if (!ordered_already(operand)) pdl_wait();
    waited_for_grid_ = waited_for_grid_ || operand.waits_for_grid;
  }

  template <Group G>
  TESSERA_HOST_DEVICE bool conclude(bool ok) {
    ok = together<G, Watch>(ok);
    stopped_ = stopped_ || !ok;
    return ok;
  }

  template <Group G, class Met>
  TESSERA_HOST_DEVICE bool for_each_wait(RuntimeOperand const& operand, Met const& met) const {
    int const last = operand.offsets[linear_ + 1];
    for (int i = operand.offsets[linear_] + share_of<G>().first; i < last; i += share_of<G>().step)
      if (!met(operand.waits[i])) return false;
    return true;
  }

  TESSERA_HOST_DEVICE Look first_look(RuntimeSet const& set, Tile const& tile) {
    Look look;
    look.tile = tile;
    look.semaphore = set.index_of(tile);
    look.target = target_of(set.posts_of(tile));
    return look;
  }
  TESSERA_HOST_DEVICE bool see(Look& look) const {
    look.seen = load_acquire<S>(memory_.semaphores + look.semaphore);
    return reached(look.seen, look.target);
  }

  /// Looks at the semaphores of all tiles of the box that share `look`'s coordinate along the dimension, from
  /// where the last call stopped; true if all are ready.
  template <int Along>
  TESSERA_HOST_DEVICE bool see_across(RuntimeSet const& set, TileBox const& box, Look& look) {
    while (see(look)) {
      bool more = false;
      for (int d = 0; d < k_max_rank && !more; ++d) {
        if (d == Along) continue;
        int const next = set.dimension[d].run_after(look.tile.at[d], 1);
        more = next < box.end[d];
        look.tile.at[d] = more ? next : box.begin[d];
      }
      if (!more) return true;
      look = first_look(set, look.tile);
    }
    return false;
  }

  template <int Along, Group G, bool Wait>
  TESSERA_HOST_DEVICE int look_along(RuntimeSet const& set, TileBox const& box, int from) {
    auto const& dimension = set.dimension[Along];
    int const end = box.end[Along];
    int const mine = share_of<G>().first;
    bool waits = Wait;
    while (from < end) {
      int const at = mine == 0 ? from : dimension.run_after(from, mine);
      bool ok = at >= end;
      Look look;
      if (!ok) {
        Tile tile;
        for (int d = 0; d < k_max_rank; ++d) tile.at[d] = d == Along ? at : box.begin[d];
        look = first_look(set, tile);
        ok = see_across<Along>(set, box, look);
      }
      int members = leading_members<G>(ok);
      auto patience = watch_.begin();
      while (waits && members == 0) {
        if (!ok) ok = see_across<Along>(set, box, look);
        if constexpr (Watch::may_stop) {
          if (!group_all<G>(mine != 0 || ok ||
                            watch_.go_on(patience, place(look.semaphore), look.seen, look.target))) {
            stopped_ = true;
            return end;
          }
        }
        members = leading_members<G>(ok);
      }
      if (members > 0) from = smaller_of(dimension.run_after(from, members), end);
      // More than this is a bonus: it is not waited for.
      waits = false;
      if (members < share_of<G>().step) break;
    }
    group_barrier<G>();
    return from;
  }
  TESSERA_HOST_DEVICE static constexpr int smaller_of(int a, int b) { return a < b ? a : b; }

  RuntimeStage const& stage_;
  ChainMemory memory_;
  Watch watch_;
  unsigned launched_;
  unsigned epoch_ = 0;
  long long linear_ = 0;
  bool knows_epoch_ = false;
  bool waited_for_grid_ = false;
  bool stopped_ = false;
};

}  // namespace tessera
