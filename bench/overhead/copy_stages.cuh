// SPDX-License-Identifier: Apache-2.0
// Two copies as stages, block i of the second after block i of the first, described as a generated header
// describes them: one description for each mechanism.
#pragma once

#include "tessera/sync.cuh"

namespace tessera::bench {

/// One full wave on 132 SMs with eight blocks of 256 threads each.
constexpr int k_blocks = 1056;
constexpr int k_threads = 256;

enum class How { stream_order, pdl, pdl_tiles, wait_kernel, fused };

struct CopySet {
  using Policy = TileSync;
  TESSERA_HOST_DEVICE static constexpr TileGrid grid() { return {1, {k_blocks, 1, 1, 1}}; }
  static constexpr int splits = 1;
  static constexpr long long first = 0;
  static constexpr long long count = k_blocks;
};

template <bool Tiles>
struct CopyDependence {
  using Set = NoSet;
  static constexpr int accesses = 1;
  TESSERA_HOST_DEVICE static constexpr TileBox box(int, Tile const& tile) {
    return cut_box(CopySet::grid(), {tile.at[0], tile.at[0] + 1});
  }
};
template <>
struct CopyDependence<true> : CopyDependence<false> {
  using Set = CopySet;
};

/// `Drawn`: the order is kept by tickets; else block index is tile (T), and the post is a plain store.
template <int Index, How H, bool Drawn>
struct CopyStage {
  static constexpr bool tiles = H == How::pdl_tiles || H == How::wait_kernel || H == How::fused;
  static constexpr int index = Index;
  TESSERA_HOST_DEVICE static constexpr TileGrid grid() { return CopySet::grid(); }
  static constexpr int splits = 1;
  static constexpr int threads = k_threads;
  using Order = RowMajor;
  static constexpr Start start = H == How::fused ? Start::worker : Drawn ? Start::ticket : Start::block_index;
  static constexpr bool custom_order = Drawn;
  static constexpr bool plain_store = tiles;
  static constexpr bool reorder_loads = false;
  static constexpr bool wait_kernel = H == How::wait_kernel && Index == 1;
  static constexpr bool triggers_at_start = (H == How::pdl || H == How::pdl_tiles) && Index == 0;
  static constexpr bool waits_for_grid = H == How::pdl && Index == 1;
  static constexpr bool completes_after_previous = H == How::pdl_tiles && Index == 1;
  static constexpr bool announces_start = H == How::wait_kernel && Index == 0;
  using Operands = std::conditional_t<Index == 1, tessera::Operands<After<CopyDependence<tiles>>>,
                                      tessera::Operands<External>>;
  using Posts = std::conditional_t<Index == 0 && tiles, Sets<CopySet>, Sets<>>;
  using BeforeStore = Sets<>;
};

struct CopyChain {
  static constexpr int workers = k_blocks;
  static constexpr long long tickets = 2 * k_blocks;
  using Tickets = StageByStage<CopyStage<0, How::fused, true>, CopyStage<1, How::fused, true>>;
};

__device__ inline void copy_tile(uint4 const* in, uint4* out, long long tile, int words) {
  in += tile * words;
  out += tile * words;
  int i = static_cast<int>(threadIdx.x);
  // Loads before stores by hand: the compiler cannot know that the buffers do not overlap.
  for (; i + 3 * k_threads < words; i += 4 * k_threads) {
    uint4 const w0 = in[i], w1 = in[i + k_threads], w2 = in[i + 2 * k_threads], w3 = in[i + 3 * k_threads];
    out[i] = w0;
    out[i + k_threads] = w1;
    out[i + 2 * k_threads] = w2;
    out[i + 3 * k_threads] = w3;
  }
  for (; i < words; i += k_threads) out[i] = in[i];
}

/// What stands in a program without Tessera.
__global__ void __launch_bounds__(k_threads, 8) copy_plain(uint4 const* in, uint4* out, int words) {
  copy_tile(in, out, blockIdx.x, words);
}

/// The second copy under programmatic launch without Tessera; the first triggers at its start.
__global__ void __launch_bounds__(k_threads, 8)
    copy_plain_pdl(uint4 const* in, uint4* out, int words, bool waits) {
  if (waits)
    pdl_wait();
  else
    pdl_trigger();
  copy_tile(in, out, blockIdx.x, words);
}

template <class Stage, class Watch>
__global__ void __launch_bounds__(k_threads, 8)
    copy(StageView<Stage, Watch> stage, uint4 const* in, uint4* out, int words) {
  Tile const tile = stage.start();
  if (!stage.wait(operand_a, tile)) return;
  copy_tile(in, out, tile.at[0], words);
  stage.post();
}

template <class Watch>
__global__ void __launch_bounds__(k_threads, 8)
    copy_fused(ChainMemory memory, Watch watch, uint4 const* a, uint4* b, uint4* c, int words) {
  using First = CopyStage<0, How::fused, true>;
  using Second = CopyStage<1, How::fused, true>;
  Worker<CopyChain, Watch> worker(memory, watch);
  while (worker.next()) {
    if (worker.template is<First>()) {
      auto stage = worker.template as<First>();
      copy_tile(a, b, stage.tile().at[0], words);
      stage.post();
    } else {
      auto stage = worker.template as<Second>();
      if (!stage.wait(operand_a, stage.tile())) return;
      copy_tile(b, c, stage.tile().at[0], words);
      stage.post();
    }
  }
}

}  // namespace tessera::bench
