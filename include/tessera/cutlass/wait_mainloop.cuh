// SPDX-License-Identifier: Apache-2.0
// Waiting, in a class derived from a collective mainloop of CUTLASS: the kernel calls this load() where it
// would have called the base's, with the same arguments, in the one warp that fills shared memory.
#pragma once

#include <cutlass/cutlass.h>
#include <cute/tensor.hpp>

#include "synchronization_of.cuh"

namespace tessera::cutlass_sm90 {

/// `activations` says which of CUTLASS's operands is a of the plan, which is waited for as its depth gets
/// ready: 0 is A, whose tiles are M, 1 is B. The other one is b.
template <class Base, int activations = 0>
struct WaitMainloop : Base {
  using typename Base::DispatchPolicy;
  using typename Base::MainloopPipeline;
  using typename Base::PipelineState;
  using typename Base::TensorStorage;
  using typename Base::TileShape;

  struct Arguments : Base::Arguments {
    Synchronization synchronization;
  };
  struct Params : Base::Params {
    Synchronization synchronization;
  };

  template <class ProblemShape>
  static Params to_underlying_arguments(ProblemShape const& shape, Arguments const& arguments,
                                        void* workspace) {
    return {Base::to_underlying_arguments(shape, static_cast<typename Base::Arguments const&>(arguments),
                                          workspace),
            arguments.synchronization};
  }

  /// Called by the whole producer warp, once for each tile.
  template <class Inputs, class Coord, class Slices>
  CUTLASS_DEVICE void load(Params const& params, MainloopPipeline pipeline, PipelineState state,
                           Inputs const& inputs, Coord const& coord, Slices slices, int count, int thread,
                           uint32_t rank, TensorStorage& storage) {
    int const row = cute::get<activations>(coord);
    load_part<false>(params, pipeline, state, inputs, coord, slices, 0, count, row == complete_row_, thread,
                     rank, storage);
    complete_row_ = row;
  }

 protected:
  /// Loads `count` slices, of which `slices` is the first and `begin` its number: as much of the depth as is
  /// ready, waits for more, and so on. After a stall it loads what is there, so that the block can leave.
  /// `is_part`: of the depth; else it is all, and `begin` 0.
  template <bool is_part, class Inputs, class Coord, class Slices>
  CUTLASS_DEVICE void load_part(Params const& params, MainloopPipeline pipeline, PipelineState state,
                                Inputs const& inputs, Coord const& coord, Slices slices, int begin, int count,
                                bool complete, int thread, uint32_t rank, TensorStorage& storage) {
    auto const& plan = params.synchronization;
    int const row = cute::get<activations>(coord);
    PersistentProgress known;
    known.launches = launches_;
    auto view = view_of(plan, known);
    begin_tile(plan, view, row, cute::get<1 - activations>(coord));
    int ready = complete || !plan.waits_for_a ? count : 0;
    // Of the depth, in tiles: what is known to be ready.
    TileBox box;
    if (ready == 0 && plan.by_depth) box = box_of<is_part>(plan, row, begin, count);
    int tiles = box.begin[0];
    int early = -1;  // slices of weights that are under way; not looked yet
    int done = 0;
    while (done < count) {
      while (ready <= done) {
        bool const waits = early >= 0;
        tiles = view.template ready_or_wait<0>(operand_a, box, tiles, waits);
        ready = slices_in(plan, box, tiles, begin, count);
        if (waits) {
          if (plan.triggers_late) pdl_trigger();
          continue;
        }
        early = 0;
        if (ready == 0 && plan.early_weights) {
          PipelineState weights_state = state;
          Slices weights_slices = slices;
          early = min(count, static_cast<int>(DispatchPolicy::Stages));
          issue<1 - activations>(params, pipeline, weights_state, inputs, coord, weights_slices, early, rank,
                                 storage);
        }
      }
      // What any lane has acquired is ordered before the loads of the one lane that issues them.
      __syncwarp();
      fence_proxy_async();
      if (done < early) {
        int const now = min(ready, early) - done;
        Slices from = slice_at(slices, done);
        issue<activations>(params, pipeline, state, inputs, coord, from, now, rank, storage);
        done += now;
      }
      if (done < ready) {
        Base::load(params, pipeline, state, inputs, coord, slice_at(slices, done), ready - done, thread, rank,
                   storage);
        __syncwarp();
        state.advance(ready - done);
        done = ready;
      }
    }
    launches_ = view.progress().launches;
  }

 private:
  /// The slice that lies so many behind another: counted in `done` already, it needs no register.
  template <class Slices>
  CUTLASS_DEVICE static Slices slice_at(Slices slices, int number) {
    if constexpr (cute::is_tuple<cute::remove_cvref_t<decltype(slices.coord)>>::value)
      cute::get<0>(slices.coord) += number;
    else
      slices.coord += number;
    return slices;
  }

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

  /// Waits for what is waited for as a whole.
  CUTLASS_DEVICE static void begin_tile(Synchronization const& plan, StageView& view, int row, int column) {
    view.take({{column, row}});
    // Before the loads, which what other warps store comes behind.
    if (__builtin_expect(plan.waits_whole, false)) {
      view.wait_whole(plan.whole);
      fence_proxy_async();
    }
  }

  /// The first tile of a's producer, along the depth, that holds slice `begin`.
  CUTLASS_DEVICE static int first_tile(Synchronization const& plan, int begin) {
    return min(begin * static_cast<int>(cute::size<2>(TileShape{})) / plan.producer.columns,
               plan.producer_columns - 1);
  }

  /// The tiles of a's producer that hold the slices.
  template <bool is_part>
  CUTLASS_DEVICE static TileBox box_of(Synchronization const& plan, int row, int begin, int count) {
    constexpr int rows = cute::size<activations>(TileShape{}), depth = cute::size<2>(TileShape{});
    int const last_row = plan.producer_rows - 1;
    TileBox box;
    box.begin[1] = min(row * rows / plan.producer.rows, last_row);
    box.end[1] = min((row * rows + rows - 1) / plan.producer.rows, last_row) + 1;
    box.end[0] = plan.producer_columns;
    if (is_part) {
      box.begin[0] = first_tile(plan, begin);
      box.end[0] = min(((begin + count) * depth - 1) / plan.producer.columns + 1, plan.producer_columns);
    }
    return box;
  }

  /// How many of `count` slices from `begin` on lie in tiles of the box below `tiles`.
  CUTLASS_DEVICE static int slices_in(Synchronization const& plan, TileBox const& box, int tiles, int begin,
                                      int count) {
    if (tiles == box.end[0]) return count;
    int const slices = tiles * plan.producer.columns / static_cast<int>(cute::size<2>(TileShape{}));
    return max(0, min(slices - begin, count));
  }

  unsigned launches_ = 0;  // with this one; 0: not asked yet
  int complete_row_ = -1;  // a row of tiles that is known to be ready as a whole
};

}  // namespace tessera::cutlass_sm90
