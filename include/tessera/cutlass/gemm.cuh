// SPDX-License-Identifier: Apache-2.0
// CUTLASS's GEMM for Hopper as a stage of a plan: its GemmUniversal around a mainloop and an epilogue of its
// collective builders, whose tiles are waited for and posted, and the kernel that starts it.
#pragma once

#include <cutlass/cutlass.h>
#include <cutlass/gemm/kernel/gemm_universal.hpp>

#include "band_scheduler.cuh"
#include "post_epilogue.cuh"
#include "wait_mainloop.cuh"

namespace tessera::cutlass_sm90 {

/// `Mainloop` is a warp-specialized one that loads through TMA (KernelTmaWarpSpecializedCooperative or
/// ...Pingpong), `Epilogue` stores through TMA. `row_mode`: which of CUTLASS's modes the output's rows are, 0
/// for M; with 1, operands swapped, operand a of the plan is CUTLASS's B.
template <class Mainloop, class Epilogue, int row_mode_ = 0>
struct SynchronizedGemm {
  static constexpr int row_mode = row_mode_;
  static constexpr int splits = 1;
  using Kernel =
      cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int>, WaitMainloop<Mainloop, row_mode>,
                                           PostEpilogue<Epilogue, SynchronizedGemm>,
                                           BandSchedulerTag<row_mode>>;
};

/// Lets the next kernel start at once: where there is nothing to overlap that costs next to nothing, and a
/// consumer with waits is placed only when every block of this kernel is there or gone. A kernel that started
/// early itself lets the next one start only when those before it are complete, for the epochs of the next
/// one's waits are counts of blocks that have left.
template <class Kernel>
__global__ void __launch_bounds__(Kernel::MaxThreadsPerBlock, 1)
    synchronized_gemm(__grid_constant__ typename Kernel::Params const params) {
  Synchronization const& plan = params.mainloop.synchronization;
  if (plan.triggers) pdl_trigger();
  extern __shared__ char shared_memory[];
  Kernel{}(params, shared_memory);
  // A thread of the warp that waits: nobody else asks for the epoch.
  if (threadIdx.x == 0) view_of(plan).leave();
}

/// What synchronized_gemm() is launched with: `grid` blocks of Kernel::get_block_shape() threads in the
/// kernel's cluster, Kernel::SharedStorageSize bytes of shared memory.
template <class Kernel>
struct SynchronizedLaunch {
  typename Kernel::Params params;
  dim3 grid;
};

/// `arguments` as for CUTLASS alone; `scheduler.band` says how many rows of tiles are taken column by column.
/// Call can_synchronize() and Kernel::can_implement() first.
template <class Kernel>
SynchronizedLaunch<Kernel> synchronized_launch(typename Kernel::Arguments arguments,
                                               SynchronizedProduct const& product) {
  arguments.mainloop.synchronization = synchronize(product);
  SynchronizedLaunch<Kernel> launch{Kernel::to_underlying_arguments(arguments, nullptr), {}};
  launch.grid = Kernel::get_grid_shape(launch.params);
  launch.params.mainloop.synchronization.launched = launch.grid.x * launch.grid.y * launch.grid.z;
  return launch;
}

}  // namespace tessera::cutlass_sm90
