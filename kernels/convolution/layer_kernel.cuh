// SPDX-License-Identifier: Apache-2.0
// A layer as a launch of its own: a block for each tile. Filters are loaded while the launch before still
// runs, pixels when it is complete. So a boundary between two layers is one of the stream, without a
// semaphore, a list of tiles or a deadline; what is known of a layer when it is compiled is not asked for
// when it runs.
#pragma once

#include <cuda.h>

#include <tessera/sync/launch.cuh>
#include <tessera/sync/tensor_load.cuh>
#include <tessera/sync/wait.cuh>

#include "kernels/convolution/layer_multiply.cuh"
#include "kernels/convolution/layer_sums.cuh"
#include "kernels/convolution/patch_load.cuh"
#include "kernels/few_tokens/tile_times.hpp"

namespace tessera::convolution {

constexpr int k_layer_threads = 32 * (k_warps + 2);  ///< and a warp that loads filters, and one for pixels

struct LayerLaunch {
  CUtensorMap filters, pixels;
  ConvStage stage;  ///< its maps are those above
  LayerMemory memory;
};

/// How the warps of a block multiply: by themselves.
template <class Of, int RowTiles, int ColumnTiles, int Steps>
struct ByWarps {
  using Element = Of;
  using Sums = WarpSums<RowTiles, ColumnTiles>;
  __device__ static WarpPlace place(Cut const& cut, int warp) { return WarpPlace::of(cut, warp); }
  template <class AtFirst>
  __device__ __forceinline__ static void multiply(ConvStage const& p, LayerRings& rings, int warp,
                                                  Column const* columns, Sums& sums,
                                                  AtFirst const& at_first) {
    if (p.kernel == 3)
      multiply_three<Element, RowTiles, ColumnTiles, Steps>(p, rings, place(p.cut, warp), columns, sums,
                                                            at_first);
    else
      multiply_slots<Element, RowTiles, ColumnTiles, Steps>(p, rings, place(p.cut, warp), columns, sums,
                                                            at_first);
  }
};
/// As warpgroups.
template <class Of, int ColumnTiles, int DepthGroups>
struct ByGroups {
  using Element = Of;
  using Sums = WarpSums<1, ColumnTiles>;
  __device__ static WarpPlace place(Cut const& cut, int warp) {
    return GroupPlace::of(cut, warp / 4).warp(warp);
  }
  template <class AtFirst>
  __device__ __forceinline__ static void multiply(ConvStage const& p, LayerRings& rings, int warp,
                                                  Column const*, Sums& sums, AtFirst const& at_first) {
    auto const group = GroupPlace::of(p.cut, warp / 4);
    auto& flat = reinterpret_cast<float(&)[4 * ColumnTiles]>(sums);
    if (p.kernel == 3)
      multiply_three_wide<Element, 8 * ColumnTiles, DepthGroups>(p, rings, group, flat, at_first);
    else
      multiply_slots_wide<Element, 8 * ColumnTiles, DepthGroups>(p, rings, group, flat, at_first);
  }
};

namespace layer {

__device__ __forceinline__ void begin(LayerLaunch const& launch, unsigned base) {
  auto const& m = launch.memory;
  for (int i = 0; i < m.slots; ++i) {
    barrier_init(base + m.full(i), 1);
    barrier_init(base + m.empty(i), k_warps);
  }
  for (int i = 0; i < m.patches; ++i) {
    barrier_init(base + m.patch_full(i), 1);
    barrier_init(base + m.patch_empty(i), k_warps);
  }
  auto const& cut = launch.stage.cut;
  barrier_init(base + m.exchanged(), 1);
  fence_barrier_init();
  if (cut.splits > 1)
    barrier_expect(base + m.exchanged(),
                   static_cast<unsigned>(4 * cut.rows() * cut.columns() * cut.depth_warps));
}

/// One thread.
__device__ __forceinline__ void load_filters(LayerLaunch const& launch, TilePlace const& at, unsigned base) {
  auto const& p = launch.stage;
  auto const& m = launch.memory;
  int const row = at.row * p.cut.rows(), taps = p.taps(), chunks = p.chunks;
  auto const bytes = static_cast<unsigned>(p.slot_bytes());
  RingPlace place;
  for (int chunk = at.split * chunks; chunk < (at.split + 1) * chunks; ++chunk)
    for (int tap = 0; tap < taps; tap += p.cut.taps_per_slot) {
      wait_barrier(base + m.empty(place.index), place.parity ^ 1);
      unsigned const barrier = base + m.full(place.index);
      barrier_expect(barrier, bytes);
      load_box(base + m.slot(place.index), &launch.filters, k_line / 2 * chunk, row, tap, barrier);
      place.next(m.slots);
    }
}

/// One thread, behind the launch before.
__device__ __forceinline__ void load_pixels(LayerLaunch const& launch, TilePlace const& at, unsigned base) {
  auto const& p = launch.stage;
  auto const& m = launch.memory;
  int const x = at.x * p.cut.box_width * p.stride - p.padding;
  int const y = at.y * p.cut.box_height * p.stride - p.padding;
  int const image = at.image * p.cut.box_images, chunks = p.chunks;
  auto const bytes = static_cast<unsigned>(k_line * p.patch_lines());
  RingPlace place;
  for (int chunk = at.split * chunks; chunk < (at.split + 1) * chunks; ++chunk) {
    wait_barrier(base + m.patch_empty(place.index), place.parity ^ 1);
    unsigned const barrier = base + m.patch_full(place.index);
    barrier_expect(barrier, bytes);
    load_patch(base + m.patch(place.index), &launch.pixels, k_line / 2 * chunk, x, y, image, barrier);
    place.next(m.patches);
  }
}

/// Barrier of the warps that multiply.
__device__ __forceinline__ void sync() {
  asm volatile("barrier.cta.sync 1, %0;" ::"n"(32 * k_warps) : "memory");
}

template <class Work>
__device__ __forceinline__ void compute(LayerLaunch const& launch, TilePlace const& at, unsigned base,
                                        unsigned char* shared, int warp) {
  using Element = typename Work::Element;
  using few_tokens::TileTimes;
  auto const& p = launch.stage;
  auto const& m = launch.memory;
  auto* const stamps = reinterpret_cast<TileTimes*>(shared + m.stamps());
  auto const note = [&](auto which) {
    if (p.times != nullptr && threadIdx.x == 0) stamps->*which = GlobalTimer::now();
  };
  note(&TileTimes::begun);
  auto* const columns = reinterpret_cast<Column*>(shared + m.columns());
  for (int c = static_cast<int>(threadIdx.x); c < p.cut.columns(); c += 32 * k_warps)
    columns[c] = column_of(p, at, c);
  sync();
  Results<Element> const results{p, at.row * p.cut.rows()};
  bool const meets = p.cut.adds_up();
  auto const meeting = MeetingSums::of(p.cut, base + m.sums());
  auto const share = ThreadShare::of(meeting.rows, 32 * k_warps);
  uint2 bias = {}, before = {};
  if (meets) bias = results.bias(share.channel);
  pdl_wait();
  // What the thread finishes first: on its way while the tile is multiplied.
  if (meets && share.column < meeting.columns)
    if (int const pixel = columns[meeting.tile_column(share.column, at.split)].pixel; pixel >= 0)
      before = results.residual(pixel, share.channel);

  LayerRings rings(m, base);
  auto const place = Work::place(p.cut, warp);
  typename Work::Sums sums = {};
  Work::multiply(
      p, rings, warp, columns, sums, [&]() __attribute__((always_inline)) { note(&TileTimes::fed); });
  note(&TileTimes::read);
  if (!meets) {
    store_turned(results, place, columns, sums);
  } else {
    unsigned const barrier = base + m.exchanged();
    if (p.cut.splits > 1) cluster_wait();  // the others' barriers are there
    send_turned(meeting, place, at.split * p.cut.depth_warps + place.depth, barrier, sums);
    if (p.cut.splits > 1) {
      while (!barrier_try_cluster(barrier, 0)) {
      }
    } else {
      sync();
    }
    int const sources = sources_of(p.cut);
    for (int column = share.column, first = 1; column < meeting.columns; column += share.step, first = 0) {
      int const pixel = columns[meeting.tile_column(column, at.split)].pixel;
      if (pixel < 0) continue;
      if (first == 0) before = results.residual(pixel, share.channel);
      auto const sum = meeting.sum(sources, column, share.channel);
      results.store(pixel, share.channel,
                    Results<Element>::plus(Results<Element>::plus(sum, Results<Element>::widen(bias)),
                                           Results<Element>::widen(before)));
    }
  }
  note(&TileTimes::stored);
  if (p.times != nullptr && threadIdx.x == 0) p.times[blockIdx.x] = *stamps;
}

}  // namespace layer

template <class Work, int BlocksPerSm>
__global__ void __launch_bounds__(k_layer_threads, BlocksPerSm)
    layer_kernel(LayerLaunch const __grid_constant__ launch) {
  extern __shared__ __align__(1024) unsigned char tessera_layer_shared[];
  unsigned const base = shared_address(tessera_layer_shared);
  int const warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x / 32), 0);
  auto const at = launch.stage.place(static_cast<int>(blockIdx.x));
  bool const shares = launch.stage.cut.splits > 1;
  if (threadIdx.x == 0) {
    pdl_trigger();
    layer::begin(launch, base);
  }
  __syncthreads();
  if (shares) cluster_arrive();
  if (warp < k_warps) {
    layer::compute<Work>(launch, at, base, tessera_layer_shared, warp);
    return;
  }
  if (threadIdx.x % 32 == 0) {
    if (warp == k_warps) {
      prefetch_map(&launch.filters);
      layer::load_filters(launch, at, base);
    } else {
      prefetch_map(&launch.pixels);
      pdl_wait();
      layer::load_pixels(launch, at, base);
    }
  }
  __syncwarp();
  if (shares) cluster_wait();
}

}  // namespace tessera::convolution
