// SPDX-License-Identifier: Apache-2.0
// Waiting, in a class derived from a collective mainloop of CUTLASS: the kernel calls this load() where it
// would have called the base's, with the same arguments, in the one warp that fills shared memory.
#pragma once

#include <cutlass/cutlass.h>
#include <cute/tensor.hpp>
#include <tessera/sync.cuh>

namespace tessera::gemm_sm90 {

/// What a block waits for before it loads rows of activations.
template <class Watch>
struct WaitParams {
  unsigned const* semaphores = nullptr;
  unsigned long long const* left = nullptr;  ///< blocks that have left, in all launches
  unsigned long long reciprocal = 0;         ///< ceil(2^64 / blocks of a launch); 0: one block
  int rows = 0;                              ///< of the producer's tiles
  int groups = 0;                            ///< semaphores in a row; 0: wait for the kernels before instead
  int tile_rows = 1;                         ///< elements
  int group_depth = 1;                       ///< elements of an activation's row behind one semaphore
  unsigned posts = 0;                        ///< to a semaphore in one launch
  unsigned last_posts = 0;                   ///< the same for the last of a row
  bool early_weights = false;
  bool trigger_late = false;  ///< let the next kernel start when those before are complete, not at once
  int stage = 0;
  Watch watch{};
};

/// The number of this launch, from 0. It cannot change while the asking block is there, because that block
/// has not been counted yet. Exact below 2^64 / blocks.
template <class Watch>
__device__ inline unsigned launch_number(WaitParams<Watch> const& wait) {
  unsigned long long const left = load_counter(wait.left);
  return static_cast<unsigned>(wait.reciprocal == 0 ? left : __umul64hi(left, wait.reciprocal));
}

/// `activations` says which of CUTLASS's operands is waited for: 0 is A, whose tiles are M, 1 is B.
template <class Base, class Watch, int activations = 0>
struct WaitMainloop : Base {
  using typename Base::DispatchPolicy;
  using typename Base::MainloopPipeline;
  using typename Base::PipelineState;
  using typename Base::TensorStorage;
  using typename Base::TileShape;

  struct Arguments : Base::Arguments {
    WaitParams<Watch> wait;
  };
  struct Params : Base::Params {
    WaitParams<Watch> wait;
  };

  template <class ProblemShape>
  static Params to_underlying_arguments(ProblemShape const& shape, Arguments const& arguments,
                                        void* workspace) {
    return {Base::to_underlying_arguments(shape, static_cast<typename Base::Arguments const&>(arguments),
                                          workspace),
            arguments.wait};
  }

  /// Called by the whole producer warp, once for each tile.
  template <class Inputs, class Coord, class Slices>
  CUTLASS_DEVICE void load(Params const& params, MainloopPipeline pipeline, PipelineState state,
                           Inputs const& inputs, Coord const& coord, Slices slices, int count, int thread,
                           uint32_t rank, TensorStorage& storage) {
    int const row = cute::get<activations>(coord);
    load_part(params, pipeline, state, inputs, coord, slices, 0, count, row == complete_row_, thread, rank,
              storage);
    complete_row_ = row;
  }

 protected:
  /// Loads `count` slices, of which `slices` is the first and `begin` its number: as much of the depth as is
  /// ready, waits for more, and so on. After a stall it loads what is there, so that the block can leave.
  template <class Inputs, class Coord, class Slices>
  CUTLASS_DEVICE void load_part(Params const& params, MainloopPipeline pipeline, PipelineState state,
                                Inputs const& inputs, Coord const& coord, Slices slices, int begin, int count,
                                bool complete, int thread, uint32_t rank, TensorStorage& storage) {
    int const row = cute::get<activations>(coord);
    int ready_groups = 0;
    int ready = complete ? count : poll(params.wait, row, ready_groups, begin, count);
    PipelineState weights_state = state;
    Slices weights_slices = slices;
    int early = 0;
    if (ready == 0) {
      if (params.wait.early_weights) {
        early = min(count, static_cast<int>(DispatchPolicy::Stages));
        issue<1 - activations>(params, pipeline, weights_state, inputs, coord, weights_slices, early, rank,
                               storage);
      }
      ready = wait_beyond(params.wait, row, ready_groups, begin, 0, count);
    }
    int done = 0;
    while (true) {
      // What any lane has acquired is ordered before the loads of the one lane that issues them.
      __syncwarp();
      fence_proxy_async();
      if (done < early) {
        int const now = min(ready, early) - done;
        issue<activations>(params, pipeline, state, inputs, coord, slices, now, rank, storage);
        done += now;
      }
      if (done < ready) {
        Base::load(params, pipeline, state, inputs, coord, slices, ready - done, thread, rank, storage);
        __syncwarp();
        state.advance(ready - done);
        for (; done < ready; ++done) ++slices;
      }
      if (done >= count) break;
      ready = wait_beyond(params.wait, row, ready_groups, begin, done, count);
    }
  }

 private:
  /// The base's loop for one operand. A slice's barrier is acquired, and told how many bytes will come, with
  /// its weights; its activations follow to the same barrier.
  template <int operand, class Inputs, class Coord, class Slices>
  CUTLASS_DEVICE void issue(Params const& params, MainloopPipeline& pipeline, PipelineState& state,
                            Inputs const& inputs, Coord const& coord, Slices& slices, int count,
                            uint32_t rank, TensorStorage& storage) {
    using namespace cute;
    constexpr bool b = operand == 1;
    using Cluster = typename DispatchPolicy::ClusterShape;
    using Copy = conditional_t<b, typename Base::GmemTiledCopyB, typename Base::GmemTiledCopyA>;
    if (elect_one_sync()) {
      uint32_t const cluster_row = rank % size<0>(Cluster{});
      uint32_t const cluster_column = rank / size<0>(Cluster{});
      auto const& copy_atom = [&]() -> auto const& {
        if constexpr (b)
          return params.tma_load_b;
        else
          return params.tma_load_a;
      }
      ();
      auto shared = [&] {
        if constexpr (b)
          return make_tensor(make_smem_ptr(storage.smem_B.data()), typename Base::SmemLayoutB{});
        else
          return make_tensor(make_smem_ptr(storage.smem_A.data()), typename Base::SmemLayoutA{});
      }();
      auto global = get<operand>(inputs)(_, _, get<operand>(coord), _, get<3>(coord));
      auto slice = copy_atom.get_slice(b ? cluster_row : cluster_column);
      auto from = slice.partition_S(global);
      auto to = slice.partition_D(shared);
      uint16_t mask = 0;
      if constexpr (is_same_v<Copy, SM90_TMA_LOAD_MULTICAST>) {
        Layout<Cluster> const blocks{};
        for (int i = 0; i < (b ? size<0>(Cluster{}) : size<1>(Cluster{})); ++i)
          mask |= uint16_t(1) << (b ? blocks(i, cluster_column, 0) : blocks(cluster_row, i, 0));
      }
      CUTLASS_PRAGMA_NO_UNROLL
      for (int i = 0; i < count; ++i) {
        if constexpr (operand != activations) pipeline.producer_acquire(state);
        copy(copy_atom.with(*pipeline.producer_get_barrier(state), mask), from(_, _, _, *slices),
             to(_, _, _, state.index()));
        ++slices;
        ++state;
      }
    } else {
      state.advance(count);
      for (int i = 0; i < count; ++i) ++slices;
    }
    __syncwarp();
  }

  /// One look at the semaphores, 32 at a time: how many of `count` slices from `begin` on may be loaded.
  /// Counts the ready groups on from `ready_groups`, and leaves in `missing_lane` and `seen_` what the first
  /// missing one is.
  CUTLASS_DEVICE int poll(WaitParams<Watch> const& wait, int row, int& ready_groups, int begin, int count) {
    if (wait.groups == 0) return waited_for_grid_ ? count : 0;
    if (target_ == 0) target_ = launch_number(wait) + 1;
    constexpr int rows_of_tile = cute::size<activations>(TileShape{});
    // Tiles that only pad a cluster lie below the last row.
    int const first = min(row * rows_of_tile / wait.tile_rows, wait.rows - 1);
    int const last = min((row * rows_of_tile + rows_of_tile - 1) / wait.tile_rows, wait.rows - 1);
    int const lane = threadIdx.x & 31;
    while (ready_groups < wait.groups) {
      int const group = ready_groups + lane;
      bool ok = true;
      if (group < wait.groups) {
        unsigned const target = target_of(wait, group);
        for (int r = first; r <= last && ok; ++r) {
          missing_ = r * wait.groups + group;
          seen_ = load_acquire<Scope::device>(wait.semaphores + missing_);
          ok = reached(seen_, target);
        }
      }
      unsigned const all = __ballot_sync(~0u, ok);
      int const ready = all == ~0u ? 32 : __ffs(~all) - 1;
      ready_groups = min(ready_groups + ready, wait.groups);
      if (ready < 32) {
        missing_lane_ = ready;
        break;
      }
    }
    int const slices = ready_groups * wait.group_depth / static_cast<int>(cute::size<2>(TileShape{}));
    return ready_groups == wait.groups ? count : max(0, min(slices - begin, count));
  }

  /// Of a semaphore in column `group`.
  CUTLASS_DEVICE unsigned target_of(WaitParams<Watch> const& wait, int group) const {
    return target_ * (group + 1 == wait.groups ? wait.last_posts : wait.posts);
  }

  /// Waits until more than `done` slices may be loaded. Hangs, or meets its deadline, if a tile of the
  /// producer is never posted.
  CUTLASS_DEVICE int wait_beyond(WaitParams<Watch> const& wait, int row, int& ready_groups, int begin,
                                 int done, int count) {
    if (wait.groups == 0) {
      pdl_wait();
      if (wait.trigger_late) pdl_trigger();
      waited_for_grid_ = true;
      return count;
    }
    auto patience = wait.watch.begin();
    while (true) {
      int const ready = poll(wait, row, ready_groups, begin, count);
      if (ready > done) return ready;
      bool go_on = true;
      if ((threadIdx.x & 31) == missing_lane_)
        go_on = wait.watch.go_on(patience, WaitPlace{wait.stage, row, missing_}, seen_,
                                 target_of(wait, missing_ % wait.groups));
      if (!__all_sync(~0u, go_on)) return count;
    }
  }

  unsigned target_ = 0;    // launches whose posts are waited for; 0: not asked yet
  int complete_row_ = -1;  // a row of tiles that is known to be ready as a whole
  bool waited_for_grid_ = false;
  int missing_lane_ = 0;
  int missing_ = 0;    // the lane's last semaphore
  unsigned seen_ = 0;  // and its value
};

}  // namespace tessera::gemm_sm90
