// SPDX-License-Identifier: Apache-2.0
// Two copies as stages, block i of the second after block i of the first, described as a generated header
// describes them: one description for each mechanism.
#pragma once

#include "tessera/sync.cuh"
#include "tessera/sync/data_token.cuh"

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

/// `Set`: CopySet, WholeGrid or NoSet.
template <class ASet>
struct CopyDependence {
  using Set = ASet;
  static constexpr int accesses = 1;
  TESSERA_HOST_DEVICE static constexpr TileBox box(int, Tile const& tile) {
    return cut_box(CopySet::grid(), {tile.at[0], tile.at[0] + 1});
  }
};

/// `Drawn`: the order is kept by tickets; else block index is tile (T), and the post is a plain store.
template <int Index, How H, bool Drawn>
struct CopyStage {
  static constexpr bool tiles = H == How::pdl_tiles || H == How::wait_kernel || H == How::fused;
  using Awaited = std::conditional_t<tiles, CopySet, std::conditional_t<H == How::pdl, WholeGrid, NoSet>>;
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
  static constexpr bool completes_after_previous = (H == How::pdl || H == How::pdl_tiles) && Index == 1;
  static constexpr bool announces_start = H == How::wait_kernel && Index == 0;
  using Operands = std::conditional_t<Index == 1, tessera::Operands<After<CopyDependence<Awaited>>>,
                                      tessera::Operands<External>>;
  using Posts = std::conditional_t<Index == 0 && tiles, Sets<CopySet>, Sets<>>;
  using BeforeStore = Sets<>;
};

struct CopyChain {
  static constexpr int first_stage = 0;
  static constexpr bool triggers_at_start = false;
  static constexpr bool completes_after_previous = false;
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

/// An order that is not in the library: a block of the second copy takes a tile that the first computed on
/// the same SM. Two sets of counters take turns, so that each launch finds zeros that the one before has
/// left.
struct BySm {
  static constexpr int sms = 132;
  static constexpr int spacing = 32;           // a cache line of words
  static constexpr int list_of_sm = k_blocks;  // all tiles may land on one SM
  unsigned* started = nullptr;                 ///< [2][sms] lines: tiles that began on the SM
  unsigned* drawn = nullptr;                   ///< [2][sms] lines: tiles of it that a consumer took
  unsigned long long* list = nullptr;  ///< [sms][list_of_sm]: token, tile; written when the tile is complete
  unsigned* launches = nullptr;        ///< [k_blocks]: see LaunchNumber
};

__device__ inline unsigned this_sm() {
  unsigned sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  return sm;
}

/// `Whole`: the second kernel waits for the whole first one (PDL), and only chooses its tile by SM.
template <int Index, bool Whole>
__global__ void __launch_bounds__(k_threads, 8)
    copy_by_sm(BySm memory, DeadlineWatch<> watch, uint4 const* in, uint4* out, int words) {
  __shared__ unsigned chosen;
  bool const leader = threadIdx.x == 0;
  LaunchNumber const number{memory.launches + Index * k_blocks + blockIdx.x};
  unsigned const epoch = number.read();
  auto line = [&](unsigned* counters, unsigned set, unsigned sm) {
    return counters + ((set % 2) * BySm::sms + sm) * BySm::spacing;
  };
  unsigned const sm = this_sm();
  if constexpr (Index == 0) {
    unsigned slot = 0;
    if (leader) slot = atomicAdd(line(memory.started, epoch, sm), 1u);
    // One thread triggers for the block, after the atomic has answered: who starts then finds the tile
    // counted.
    if (leader && slot != ~0u) pdl_trigger();
    copy_tile(in, out, blockIdx.x, words);
    __syncthreads();
    if (leader) {
      auto* const entry = memory.list + sm * BySm::list_of_sm + slot;
      unsigned long long const value = static_cast<unsigned long long>(token_of(epoch)) << 32 | blockIdx.x;
      asm volatile("st.release.gpu.u64 [%0], %1;" ::"l"(entry), "l"(value) : "memory");
      number.finish(epoch);
    }
    if (leader && blockIdx.x < BySm::sms) {
      *line(memory.started, epoch + 1, blockIdx.x) = 0;
      *line(memory.drawn, epoch + 1, blockIdx.x) = 0;
    }
  } else {
    if (leader) {
      chosen = ~0u;
      for (unsigned i = 0; i < BySm::sms; ++i) {
        unsigned const from = (sm + i) % BySm::sms;
        unsigned const slot = atomicAdd(line(memory.drawn, epoch, from), 1u);
        unsigned capacity;
        asm volatile("ld.relaxed.gpu.u32 %0, [%1];"
                     : "=r"(capacity)
                     : "l"(line(memory.started, epoch, from))
                     : "memory");
        if (slot >= capacity) continue;
        auto const* const entry = memory.list + from * BySm::list_of_sm + slot;
        auto patience = watch.begin();
        unsigned long long value;
        for (;;) {
          asm volatile("ld.acquire.gpu.u64 %0, [%1];" : "=l"(value) : "l"(entry) : "memory");
          if (value >> 32 == token_of(epoch)) break;
          if (!watch.go_on(patience, WaitPlace{1, static_cast<long long>(blockIdx.x), k_data_token},
                           static_cast<unsigned>(value >> 32), token_of(epoch)))
            break;
        }
        if (value >> 32 == token_of(epoch)) chosen = static_cast<unsigned>(value);
        break;
      }
      number.finish(epoch);
    }
    if constexpr (Whole) pdl_wait();
    __syncthreads();
    if (chosen != ~0u) copy_tile(in, out, chosen, words);
    // Completion stays transitive.
    if (leader) pdl_wait();
  }
}

}  // namespace tessera::bench
