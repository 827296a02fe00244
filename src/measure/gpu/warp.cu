// SPDX-License-Identifier: Apache-2.0
// Warp level: synchronization and shuffles of tiles and of coalesced groups of 1 to 32 threads.
#include <cooperative_groups.h>

#include "measure/gpu/list.hpp"
#include "measure/gpu/methods/chain.cuh"
#include "measure/gpu/methods/figures.hpp"

namespace tessera::probe {
namespace {

namespace cg = cooperative_groups;

template <int Size>
struct TileSyncStep {
  cg::thread_block_tile<Size> tile = cg::tiled_partition<Size>(cg::this_thread_block());
  __device__ unsigned operator()(unsigned value) {
    tile.sync();
    return value;
  }
};

template <int Size>
struct TileShuffleStep {
  cg::thread_block_tile<Size> tile = cg::tiled_partition<Size>(cg::this_thread_block());
  unsigned source = (tile.thread_rank() + 1) % Size;
  __device__ unsigned operator()(unsigned value) { return tile.shfl(value, source); }
};

/// Not inlined, so that the compiler does not know which lanes these are: where it does, and they have
/// converged, it leaves the barrier out.
__device__ __noinline__ cg::coalesced_group active_lanes() { return cg::coalesced_threads(); }
__device__ __noinline__ unsigned active_mask() { return __activemask(); }

struct CoalescedSyncStep {
  cg::coalesced_group group;
  __device__ CoalescedSyncStep() : group(active_lanes()) {}
  __device__ unsigned operator()(unsigned value) {
    group.sync();
    return value;
  }
};

struct CoalescedShuffleStep {
  cg::coalesced_group group;
  unsigned source;
  __device__ CoalescedShuffleStep()
      : group(active_lanes()), source((group.thread_rank() + 1) % group.size()) {}
  __device__ unsigned operator()(unsigned value) { return group.shfl(value, source); }
};

struct MaskSyncStep {
  unsigned mask;
  __device__ MaskSyncStep() : mask(active_mask()) {}
  __device__ unsigned operator()(unsigned value) {
    __syncwarp(mask);
    return value;
  }
};

/// Latency with one warp, throughput with as many as two full blocks an SM.
template <class Step, int Lanes, int Unroll = 16>
void measure_step(Context const& context, Probe& probe, std::string const& id, std::string const& what,
                  int size) {
  int const samples = context.quick ? 5 : 25;
  double const d_size = size;
  auto const latency = chain_cycles<Step, Lanes, Unroll>(context, 1, 32, 256, 2816, samples);
  probe.figures.push_back(
      figure_of({id,
                 what,
                 "cycle",
                 "dependent chain",
                 {{"threads", d_size}},
                 "one warp on an SM, its lanes converged: where the compiler sees that, no barrier is left"},
                latency));
  int const per_sm = chain_blocks_per_sm<Step, Lanes, Unroll>(1024);
  auto const loaded = chain_cycles<Step, Lanes, Unroll>(context, per_sm * context.device.multiProcessorCount,
                                                        1024, 256, 1280, context.quick ? 3 : 9);
  double const warps = 32.0 * per_sm;
  probe.figures.push_back(rate_of({id + ".throughput",
                                   what + ": warp instructions per cycle of an SM",
                                   "1/cycle",
                                   "dependent chain",
                                   {{"threads", d_size}, {"warps_per_sm", warps}},
                                   "every SM as full as it can be"},
                                  loaded, warps));
}

template <int Size>
void measure_tile(Context const& context, Probe& probe) {
  measure_step<TileSyncStep<Size>, 32>(context, probe, "warp.sync.tile", "sync of a tile group", Size);
  measure_step<TileShuffleStep<Size>, 32>(context, probe, "warp.shuffle.tile", "shuffle in a tile group",
                                          Size);
}

template <int Size>
void measure_coalesced(Context const& context, Probe& probe) {
  measure_step<CoalescedSyncStep, Size>(context, probe, "warp.sync.coalesced", "sync of a coalesced group",
                                        Size);
  measure_step<CoalescedShuffleStep, Size, 4>(context, probe, "warp.shuffle.coalesced",
                                              "shuffle in a coalesced group", Size);
  measure_step<MaskSyncStep, Size>(context, probe, "warp.sync.mask", "__syncwarp of a mask", Size);
}

/// Each lane writes, the group syncs, each reads its neighbour's: how many were wrong.
template <int Size>
__global__ void check_tile(int rounds, int* wrong) {
  __shared__ int volatile box[32];
  auto const tile = cg::tiled_partition<Size>(cg::this_thread_block());
  int const lane = static_cast<int>(threadIdx.x), base = lane / Size * Size;
  for (int r = 0; r < rounds; ++r) {
    if (lane % 3 == r % 3) spin_cycles(40);
    box[lane] = r * 64 + lane;
    tile.sync();
    int const from = base + (lane - base + 1 + r) % Size;
    if (box[from] != r * 64 + from) atomicAdd(wrong, 1);
    tile.sync();
  }
}

template <int Size>
__global__ void check_coalesced(int rounds, int* wrong) {
  __shared__ int volatile box[32];
  int const lane = static_cast<int>(threadIdx.x);
  if (lane >= Size) return;
  auto const group = cg::coalesced_threads();
  for (int r = 0; r < rounds; ++r) {
    if (lane % 3 == r % 3) spin_cycles(40);
    box[lane] = r * 64 + lane;
    group.sync();
    int const from = (lane + 1 + r) % Size;
    if (box[from] != r * 64 + from) atomicAdd(wrong, 1);
    group.sync();
  }
}

}  // namespace

void measure_warp(Context const& context, Probe& probe) {
  auto const first = probe.figures.size();
  measure_tile<1>(context, probe);
  measure_tile<2>(context, probe);
  measure_tile<4>(context, probe);
  measure_tile<8>(context, probe);
  measure_tile<16>(context, probe);
  measure_tile<32>(context, probe);
  measure_coalesced<1>(context, probe);
  measure_coalesced<2>(context, probe);
  measure_coalesced<4>(context, probe);
  measure_coalesced<8>(context, probe);
  measure_coalesced<16>(context, probe);
  measure_coalesced<31>(context, probe);
  measure_coalesced<32>(context, probe);

  DeviceBuffer<int> wrong(2);
  constexpr int rounds = 2000;
  check_tile<2><<<1, 32, 0, context.stream>>>(rounds, &wrong.get()[0]);
  check_tile<8><<<1, 32, 0, context.stream>>>(rounds, &wrong.get()[0]);
  check_tile<32><<<1, 32, 0, context.stream>>>(rounds, &wrong.get()[0]);
  check_coalesced<7><<<1, 32, 0, context.stream>>>(rounds, &wrong.get()[1]);
  check_coalesced<31><<<1, 32, 0, context.stream>>>(rounds, &wrong.get()[1]);
  launched();
  auto const found = wrong.download();
  for (auto i = first; i < probe.figures.size(); ++i) {
    bool const tile = probe.figures[i].id.find("tile") != std::string::npos;
    probe.figures[i].verified = found[tile ? 0 : 1] == 0;
  }
}

}  // namespace tessera::probe
