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

struct CoalescedSync {
  cg::coalesced_group group = active_lanes();
  __device__ void operator()() const { group.sync(); }
};
struct MaskSync {
  unsigned mask = active_mask();
  __device__ void operator()() const { __syncwarp(mask); }
};
/// What the stamps take.
struct NoSync {
  __device__ void operator()() const {}
};

struct CoalescedShuffleStep {
  cg::coalesced_group group;
  unsigned source;
  __device__ CoalescedShuffleStep()
      : group(active_lanes()), source((group.thread_rank() + 1) % group.size()) {}
  __device__ unsigned operator()(unsigned value) { return group.shfl(value, source); }
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
  measure_step<CoalescedShuffleStep, Size, 4>(context, probe, "warp.shuffle.coalesced",
                                              "shuffle in a coalesced group", Size);
}

/// Rounds of the first `lanes` lanes in two branches, the odd ones late by `late` cycles: each lane writes,
/// all meet, each reads its neighbour's. `took[r]`: cycles of lane 1, one of the last, from its arrival to
/// its leaving. The branches differ to the compiler, so that lanes do not converge before they meet.
template <class Sync>
__global__ void meet_from_two_branches(int lanes, int rounds, int late, unsigned* took, int* wrong) {
  __shared__ int volatile box[2][32];
  int const lane = static_cast<int>(threadIdx.x);
  if (lane >= lanes) return;
  Sync const sync;
  for (int r = 0; r < rounds; ++r) {
    int volatile* const words = box[r % 2];
    unsigned begun = 0, ended = 0;
    if (lane % 2 == 1) {
      spin_cycles(late);
      words[lane] = r * 64 + lane;
      asm volatile("mov.u32 %0, %%clock; // late" : "=r"(begun)::"memory");
      sync();
      asm volatile("mov.u32 %0, %%clock; // late" : "=r"(ended)::"memory");
    } else {
      words[lane] = r * 64 + lane;
      asm volatile("// early" ::: "memory");
      sync();
      asm volatile("// early" ::: "memory");
    }
    int const from = (lane + 1 + r) % lanes;
    if (words[from] != r * 64 + from) atomicAdd(wrong, 1);
    if (lane == 1) took[r] = ended - begun;
  }
}

/// Cycles of `Sync` for the last lanes that come, and whether each lane read what was written before it.
template <class Sync>
void measure_meeting(Context const& context, Probe& probe, std::string const& id, std::string const& what,
                     int lanes) {
  constexpr int rounds = 1000, first = 8, late = 200;
  DeviceBuffer<unsigned> took(rounds);
  DeviceBuffer<int> wrong(1);
  auto const cycles = [&](auto kernel) {
    wrong.fill(context.stream, 0);
    kernel<<<1, 32, 0, context.stream>>>(lanes, rounds, late, took.get(), wrong.get());
    launched();
    auto const all = took.download();
    return std::vector<double>(all.begin() + first, all.end());
  };
  double const stamps = summarize(cycles(meet_from_two_branches<NoSync>)).median;
  auto met = cycles(meet_from_two_branches<Sync>);
  for (auto& one : met) one -= stamps;
  auto figure =
      figure_of({id,
                 what,
                 "cycle",
                 "stamps",
                 {{"threads", lanes}},
                 "lanes in two branches, one of them 200 cycles late: from its arrival until it goes on"},
                std::move(met));
  figure.verified = wrong.download()[0] == 0;
  probe.figures.push_back(figure);
}

void measure_meetings(Context const& context, Probe& probe) {
  for (int const lanes : {2, 4, 8, 16, 31, 32}) {
    measure_meeting<CoalescedSync>(context, probe, "warp.sync.coalesced", "sync of a coalesced group", lanes);
    measure_meeting<MaskSync>(context, probe, "warp.sync.mask", "__syncwarp of a mask", lanes);
  }
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
  measure_meetings(context, probe);
}

}  // namespace tessera::probe
