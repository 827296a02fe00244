// SPDX-License-Identifier: Apache-2.0
#include "tessera/communicate/transfers.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "gpu/launch.hpp"
#include "tessera/sync/data_token.cuh"
#include "tessera/sync/group.cuh"
#include "tessera/sync/launch.cuh"
#include "tessera/sync/runtime_stage.cuh"

namespace tessera {
namespace {

// Of PeerControl::tickets. Who meets for a word counts in k_meet + that word, who awaits part n of rank r in
// k_await + n * k_most_ranks + r.
enum Ticket { k_words, k_shard, k_meet, k_await = k_meet + 3 };
static_assert(sizeof(PeerControl::tickets) / sizeof(unsigned long long) ==
              k_await + k_most_parts * k_most_ranks);

__device__ unsigned* word_at(PeerControl* control, PeerWord which, int rank) {
  return &control->words[static_cast<int>(which)][rank];
}

/// The launch's number, from 0, for all threads of the block.
__device__ unsigned launch_of(PeerControl* own, int ticket, LaunchedBlocks const& blocks) {
  return blocks.launches(draw_for_block<false>(&own->tickets[ticket]));
}

/// The same for a launch of one warp: without shared memory, of which products leave none.
__device__ unsigned launch_of_warp(PeerControl* own, int ticket) {
  unsigned long long drawn = 0;
  if (threadIdx.x == 0) drawn = draw_ticket(&own->tickets[ticket]);
  return static_cast<unsigned>(__shfl_sync(0xffffffffu, drawn, 0));
}

__device__ bool await_word(PeerOperation const& operation, PeerWord which, int peer, unsigned number) {
  return wait_until<Scope::system>(word_at(operation.control[operation.rank], which, peer), number,
                                   operation.watch, WaitPlace{static_cast<int>(which), 0, peer});
}

// ------------------------------------------------------------------------------------------- elements

template <HalfType T>
__device__ float2 pair_of(unsigned bits) {
  if constexpr (T == HalfType::bf16)
    return __bfloat1622float2(*reinterpret_cast<__nv_bfloat162*>(&bits));
  else
    return __half22float2(*reinterpret_cast<__half2*>(&bits));
}
template <HalfType T>
__device__ unsigned bits_of(float2 pair) {
  if constexpr (T == HalfType::bf16) {
    auto const rounded = __float22bfloat162_rn(pair);
    return *reinterpret_cast<unsigned const*>(&rounded);
  } else {
    auto const rounded = __float22half2_rn(pair);
    return *reinterpret_cast<unsigned const*>(&rounded);
  }
}

// ------------------------------------------------------------------------- all-reduce of words with tokens

constexpr int k_words_threads = 128;
constexpr int k_most_words_blocks = 2 * 132;
/// A warp's share: 96 chunks of 8 elements, three a lane, which are four packets a lane.
constexpr int k_lane_chunks = 3, k_lane_packets = 4;
using Words3 = Packet<3>;

__host__ __device__ constexpr long long shares_of(long long elements) {
  return (elements / 8 + 32 * k_lane_chunks - 1) / (32 * k_lane_chunks);
}
/// Packets of one rank in one launch.
__host__ __device__ constexpr long long packets_of(long long elements) {
  return shares_of(elements) * 32 * k_lane_packets;
}

template <HalfType T>
__device__ void add_words(float2 (&sum)[12], unsigned const (&words)[12]) {
  for (int i = 0; i < 12; ++i) {
    float2 const pair = pair_of<T>(words[i]);
    sum[i].x += pair.x;
    sum[i].y += pair.y;
  }
}

template <HalfType T>
__global__ void __launch_bounds__(k_words_threads)
    sum_words(__grid_constant__ PeerOperation const operation, __grid_constant__ WordsSum const a,
              LaunchedBlocks const blocks) {
  // The kernel of the launch before has ended when this one's tickets are drawn: what lies between in the
  // stream waits for it.
  unsigned const launch = launch_of(operation.control[operation.rank], k_words, blocks);
  // The next kernel may load what nobody writes.
  pdl_trigger();
  pdl_wait();
  int const lane = static_cast<int>(threadIdx.x) % 32;
  long long const chunks = a.elements / 8, packets = packets_of(a.elements), shares = shares_of(a.elements);
  // Two launches' packets by turns: a rank is at most one launch ahead of a peer that still reads.
  long long const turn = launch % 2 * operation.ranks * packets;
  auto const warps = static_cast<long long>(gridDim.x) * (k_words_threads / 32);
  long long const first = static_cast<long long>(blockIdx.x) * (k_words_threads / 32) + threadIdx.x / 32;
  auto const load = [&](long long share, unsigned(&words)[12]) {
    for (int i = 0; i < k_lane_chunks; ++i) {
      long long const chunk = share * 32 * k_lane_chunks + 32 * i + lane;
      uint4 const four =
          chunk < chunks ? static_cast<uint4 const*>(a.partial)[chunk] : make_uint4(0, 0, 0, 0);
      words[4 * i] = four.x, words[4 * i + 1] = four.y, words[4 * i + 2] = four.z, words[4 * i + 3] = four.w;
    }
  };
  for (long long share = first; share < shares; share += warps) {
    unsigned words[12];
    load(share, words);
    for (int step = 0; step + 1 < operation.ranks; ++step) {
      int const peer = (operation.rank + 1 + step) % operation.ranks;  // as send_order()
      Words3* const to = static_cast<Words3*>(a.packets[peer]) + turn + operation.rank * packets +
                         share * 32 * k_lane_packets + lane;
      for (int j = 0; j < k_lane_packets; ++j)
        put<Scope::system>(to + 32 * j, {{words[3 * j], words[3 * j + 1], words[3 * j + 2]}, 0}, launch);
    }
  }
  for (long long share = first; share < shares; share += warps) {
    float2 sum[12] = {};
    for (int source = 0; source < operation.ranks; ++source) {
      unsigned words[12];
      if (source == operation.rank) {
        load(share, words);
      } else {
        Words3 const* const from = static_cast<Words3 const*>(a.packets[operation.rank]) + turn +
                                   source * packets + share * 32 * k_lane_packets + lane;
        Words3 seen[k_lane_packets];
        if (!take<Scope::system>(
                from, 32, launch, seen, operation.watch,
                {static_cast<int>(PeerWord::partial_words), share * k_most_ranks + source, source}))
          return;
        for (int i = 0; i < 12; ++i) words[i] = seen[i / 3].payload[i % 3];
      }
      add_words<T>(sum, words);
    }
    for (int i = 0; i < k_lane_chunks; ++i) {
      long long const chunk = share * 32 * k_lane_chunks + 32 * i + lane;
      if (chunk < chunks)
        static_cast<uint4*>(a.sum)[chunk] =
            make_uint4(bits_of<T>(sum[4 * i]), bits_of<T>(sum[4 * i + 1]), bits_of<T>(sum[4 * i + 2]),
                       bits_of<T>(sum[4 * i + 3]));
    }
  }
}

// ---------------------------------------------------------------------------------------- sum of a shard

constexpr int k_shard_threads = 512;
constexpr int k_most_shard_blocks = 2 * 132;

/// `Ranks` 0: as many as there are.
template <HalfType T, int Ranks>
__device__ void add_shard(PeerOperation const& operation, ShardSum const& a) {
  constexpr int k_at_once = Ranks == 0 ? 1 : Ranks <= 2 ? 4 : 2;
  int const ranks = Ranks == 0 ? operation.ranks : Ranks;
  long long const chunks = a.elements / 8, slot = a.slot_elements / 8;
  auto const* const from = static_cast<uint4 const*>(a.slots);
  long long const step = static_cast<long long>(gridDim.x) * k_shard_threads;
  for (long long at = static_cast<long long>(blockIdx.x) * k_shard_threads + threadIdx.x; at < chunks;
       at += k_at_once * step) {
    float2 sum[k_at_once][4] = {};
    auto const add = [&](int source) {
      uint4 bits[k_at_once];
#pragma unroll
      for (int i = 0; i < k_at_once; ++i)
        bits[i] = at + i * step < chunks ? from[source * slot + at + i * step] : make_uint4(0, 0, 0, 0);
#pragma unroll
      for (int i = 0; i < k_at_once; ++i) {
        unsigned const words[4] = {bits[i].x, bits[i].y, bits[i].z, bits[i].w};
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          float2 const pair = pair_of<T>(words[j]);
          sum[i][j].x += pair.x;
          sum[i][j].y += pair.y;
        }
      }
    };
    if constexpr (Ranks == 0) {
      for (int source = 0; source < ranks; ++source) add(source);
    } else {
#pragma unroll
      for (int source = 0; source < Ranks; ++source) add(source);
    }
#pragma unroll
    for (int i = 0; i < k_at_once; ++i) {
      if (at + i * step >= chunks) continue;
      uint4 const bits = make_uint4(bits_of<T>(sum[i][0]), bits_of<T>(sum[i][1]), bits_of<T>(sum[i][2]),
                                    bits_of<T>(sum[i][3]));
      for (int copy = 0; copy < a.copies; ++copy) static_cast<uint4*>(a.results[copy])[at + i * step] = bits;
    }
  }
}

template <HalfType T>
__global__ void __launch_bounds__(k_shard_threads)
    sum_slots(__grid_constant__ PeerOperation const operation, __grid_constant__ ShardSum const a,
              LaunchedBlocks const blocks) {
  PeerControl* const own = operation.control[operation.rank];
  unsigned const number = launch_of(own, k_shard, blocks) + 1;
  int const peer = static_cast<int>(threadIdx.x);
  bool const is_peer = peer < operation.ranks && peer != operation.rank;
  // What was launched before this kernel is complete, in the peers' memory, too.
  if (blockIdx.x == 0 && is_peer)
    store_release<Scope::system>(word_at(operation.control[peer], PeerWord::arrived, operation.rank), number);
  bool const there = !is_peer || await_word(operation, PeerWord::arrived, peer, number);
  if (!group_all<Group::block>(there)) return;
  if (operation.ranks == 2)
    add_shard<T, 2>(operation, a);
  else if (operation.ranks == 4)
    add_shard<T, 4>(operation, a);
  else if (operation.ranks == 8)
    add_shard<T, 8>(operation, a);
  else
    add_shard<T, 0>(operation, a);
  __syncthreads();
  if (threadIdx.x >= 32) return;
  unsigned before = 0;
  if (threadIdx.x == 0)
    asm volatile("atom.acq_rel.sys.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(&own->arrivals) : "memory");
  before = __shfl_sync(0xffffffffu, before, 0);
  __syncwarp();
  if (before + 1 != number * gridDim.x || !is_peer) return;
  // The last block speaks for the rank.
  store_release<Scope::system>(word_at(operation.control[peer], PeerWord::done, operation.rank), number);
  await_word(operation, PeerWord::done, peer, number);
}

// ------------------------------------------------------------------------------------------------- words

__global__ void __launch_bounds__(32)
    meet_all(__grid_constant__ PeerOperation const operation, PeerWord const which) {
  PeerControl* const own = operation.control[operation.rank];
  unsigned const number = launch_of_warp(own, k_meet + static_cast<int>(which)) + 1;
  int const peer = static_cast<int>(threadIdx.x);
  if (peer == 0 && which == PeerWord::begun) own->number = number;
  if (peer >= operation.ranks || peer == operation.rank) return;
  store_release<Scope::system>(word_at(operation.control[peer], which, operation.rank), number);
  await_word(operation, which, peer, number);
}

__global__ void __launch_bounds__(32)
    await_part(__grid_constant__ PeerOperation const operation, int const peer, int const part) {
  PeerControl* const own = operation.control[operation.rank];
  unsigned const number = launch_of_warp(own, k_await + part * k_most_ranks + peer) + 1;
  if (threadIdx.x == 0)
    wait_until<Scope::system>(&own->parts[part][peer], number, operation.watch,
                              WaitPlace{static_cast<int>(PeerWord::arrived), part, peer});
}

/// As kernels of products ask for: with another division of an SM's memory nothing here would share one with
/// them.
gpu::Shape shape_of(int blocks, int threads) {
  gpu::Shape shape;
  shape.blocks = static_cast<unsigned>(blocks);
  shape.threads = static_cast<unsigned>(threads);
  shape.shared_percent = 100;
  return shape;
}

int blocks_for(long long pieces, int of_a_block, int most) {
  return static_cast<int>(std::clamp<long long>((pieces + of_a_block - 1) / of_a_block, 1, most));
}

}  // namespace

std::size_t packet_bytes(long long elements, int ranks) {
  return sizeof(Words3) * 2 * static_cast<std::size_t>(ranks) *
         static_cast<std::size_t>(packets_of(elements));
}

long long parts_of_words(long long elements) { return shares_of(elements); }

int load_transfers() {
  cudaFuncAttributes attributes{};
  for (void const* kernel :
       {reinterpret_cast<void const*>(&sum_words<HalfType::bf16>),
        reinterpret_cast<void const*>(&sum_words<HalfType::fp16>),
        reinterpret_cast<void const*>(&sum_slots<HalfType::bf16>),
        reinterpret_cast<void const*>(&sum_slots<HalfType::fp16>), reinterpret_cast<void const*>(&meet_all),
        reinterpret_cast<void const*>(&await_part)})
    if (auto const error = cudaFuncGetAttributes(&attributes, kernel); error != cudaSuccess) return error;
  return cudaSuccess;
}

int all_reduce_words(PeerOperation const& operation, WordsSum const& sum, bool programmatic,
                     CUstream_st* stream) {
  auto shape = shape_of(blocks_for(shares_of(sum.elements), k_words_threads / 32, k_most_words_blocks),
                        k_words_threads);
  shape.programmatic = programmatic;
  return gpu::try_launch(shape, stream,
                         sum.type == HalfType::bf16 ? &sum_words<HalfType::bf16> : &sum_words<HalfType::fp16>,
                         operation, sum, LaunchedBlocks(shape.blocks.x));
}

int sum_shard(PeerOperation const& operation, ShardSum const& sum, CUstream_st* stream) {
  auto const shape =
      shape_of(blocks_for(sum.elements / 8, k_shard_threads, k_most_shard_blocks), k_shard_threads);
  return gpu::try_launch(shape, stream,
                         sum.type == HalfType::bf16 ? &sum_slots<HalfType::bf16> : &sum_slots<HalfType::fp16>,
                         operation, sum, LaunchedBlocks(shape.blocks.x));
}

int begin_together(PeerOperation const& operation, CUstream_st* stream) {
  return gpu::try_launch(shape_of(1, 32), stream, &meet_all, operation, PeerWord::begun);
}

int meet_done(PeerOperation const& operation, CUstream_st* stream) {
  return gpu::try_launch(shape_of(1, 32), stream, &meet_all, operation, PeerWord::done);
}

int send_arrived(PeerOperation const& operation, int peer, int part, CUstream_st* stream) {
  return cudaMemcpyAsync(&operation.control[peer]->parts[part][operation.rank],
                         &operation.control[operation.rank]->number, sizeof(unsigned), cudaMemcpyDefault,
                         stream);
}

int await_arrived(PeerOperation const& operation, int peer, int part, CUstream_st* stream) {
  return gpu::try_launch(shape_of(1, 32), stream, &await_part, operation, peer, part);
}

}  // namespace tessera
