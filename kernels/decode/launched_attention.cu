// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/launched_attention.hpp"

#include <cuda_bf16.h>

#include <algorithm>
#include <tessera/sync.cuh>

#include "kernels/decode/cache_pages.cuh"
#include "kernels/decode/join_parts.cuh"
#include "src/gpu/launch.hpp"

namespace tessera::decode {
namespace {

using Element = __nv_bfloat16;

constexpr int k_warps = 4;
constexpr int k_stages = 2;  ///< of a warp's ring

/// A block's shared memory: rings of the warps, a stage of which has keys of some positions and their values
/// behind them. Sums of the warps come to the same place later.
template <int HeadSize>
struct Room {
  static constexpr int row_bytes = 2 * HeadSize;
  static constexpr int positions = HeadSize == 64 ? 32 : 16;  ///< of a stage
  static constexpr int stage_bytes = 2 * positions * row_bytes;
  static constexpr int bytes = k_warps * k_stages * stage_bytes;
  static_assert(bytes >=
                static_cast<int>(sizeof(float)) * k_warps * k_most_group * (attention_pitch(HeadSize) + 2));
};

/// What last_to_arrive() and join_parts() ask of who computes.
struct Block {
  static constexpr int threads = 32 * k_warps;
  /// Nobody stops; a barrier, as last_to_arrive() asks for.
  __device__ static bool anyone_stopped() { return __syncthreads_or(0) != 0; }
  __device__ static bool anyone(bool one) { return __syncthreads_or(one) != 0; }
};

/// A warp's ring over its share of the positions: stages of the part in turns.
template <int HeadSize>
class Stages {
 public:
  using R = Room<HeadSize>;
  __device__ Stages(LaunchedAttention const& a, AttentionTile const& tile, Positions const& seen,
                    unsigned ring, unsigned barriers)
      : a_(a), tile_(tile), seen_(seen), ring_(ring), barriers_(barriers) {}

  __device__ int first(int stage) const {
    return seen_.begin + (stage * k_warps + static_cast<int>(threadIdx.x) / 32) * R::positions;
  }
  __device__ int count(int stage) const { return min(R::positions, seen_.end - first(stage)); }
  __device__ unsigned keys(int stage) const {
    return ring_ + static_cast<unsigned>(stage % k_stages * R::stage_bytes);
  }
  __device__ static unsigned values(unsigned keys) { return keys + R::positions * R::row_bytes; }

  /// One lane.
  __device__ void load(int stage) const {
    if (first(stage) >= seen_.end) return;
    int const begin = first(stage), end = begin + count(stage);
    barrier_expect(barrier(stage), static_cast<unsigned>(2 * (end - begin) * R::row_bytes));
    for (int at = begin; at < end;) {
      int const upto = a_.cache.pages.table == nullptr
                           ? end
                           : min(end, (at / a_.cache.pages.positions + 1) * a_.cache.pages.positions);
      long long const row = row_of(at);
      auto const bytes = static_cast<unsigned>((upto - at) * R::row_bytes);
      unsigned const to = keys(stage) + static_cast<unsigned>((at - begin) * R::row_bytes);
      load_bulk(to, static_cast<Element const*>(a_.cache.keys) + row, bytes, barrier(stage));
      load_bulk(values(to), static_cast<Element const*>(a_.cache.values) + row, bytes, barrier(stage));
      at = upto;
    }
  }
  /// Is nothing in it of the newest position, or behind it?
  __device__ bool is_earlier(int stage, int newest) const { return first(stage) + R::positions <= newest; }
  /// The copy engine brings what the warp itself has asked for: this comes whatever other blocks do.
  __device__ void wait(int stage) const {
    while (!barrier_try(barrier(stage), static_cast<unsigned>(stage / k_stages % 2))) {
    }
  }

 private:
  __device__ unsigned barrier(int stage) const {
    return barriers_ + static_cast<unsigned>(stage % k_stages * 8);
  }
  /// A page that there is not: another one in its place.
  __device__ long long row_of(int position) const {
    auto const& pages = a_.cache.pages;
    if (pages.table == nullptr)
      return (static_cast<long long>(tile_.sequence * a_.kv_heads + tile_.head) * a_.cache.capacity +
              position) *
             HeadSize;
    int const page = max(page_of(pages, tile_.sequence, position), 0);
    return row_of_page<HeadSize>(pages, page, a_.kv_heads, tile_.head, position);
  }

  LaunchedAttention const& a_;
  AttentionTile tile_;
  Positions seen_;
  unsigned ring_, barriers_;
};

/// A block for each sequence, key head and part.
template <int HeadSize>
__global__ void __launch_bounds__(Block::threads, k_launched_blocks)
    attend_cached(LaunchedAttention const __grid_constant__ a) {
  using R = Room<HeadSize>;
  extern __shared__ __align__(128) unsigned char tessera_attention_shared[];
  __shared__ __align__(8) unsigned long long barriers[k_warps][k_stages];
  int const warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x % 32);
  if (lane == 0) {
    for (int i = 0; i < k_stages; ++i) barrier_init(shared_address(&barriers[warp][i]), 1);
    fence_barrier_init();
  }
  __syncwarp();
  pdl_trigger();
  auto const tile = attention_tile(static_cast<int>(blockIdx.x), a.kv_heads, a.splits);
  int const position = __ldcg(a.cached + tile.sequence), first = first_seen(position, a.window);
  auto const seen = positions_from(first, position + 1, a.splits, tile.split);
  Stages<HeadSize> const stages(
      a, tile, seen,
      shared_address(tessera_attention_shared) + static_cast<unsigned>(warp * k_stages * R::stage_bytes),
      shared_address(barriers[warp]));
  if (lane == 0)
    for (int i = 0; i < k_stages; ++i)
      if (stages.is_earlier(i, position)) stages.load(i);
  pdl_wait();
  // The new keys and values are there.
  if (lane == 0)
    for (int i = 0; i < k_stages; ++i)
      if (!stages.is_earlier(i, position)) stages.load(i);

  using Warp = AttentionWarp<Element, HeadSize>;
  Warp state(a.scale);
  int const of_head = (a.group + 2) * HeadSize;
  auto const* const query = static_cast<Element const*>(a.qkv) +
                            static_cast<long long>(tile.sequence * a.kv_heads + tile.head) * of_head +
                            min(lane / 4, a.group - 1) * HeadSize;
#pragma unroll
  for (int s = 0; s < Warp::steps; ++s)
#pragma unroll
    for (int h = 0; h < 2; ++h)
      state.queries[0][s][h] = __ldcg(reinterpret_cast<unsigned const*>(query + Warp::element(s, h)));

  for (int i = 0; stages.first(i) < seen.end; ++i) {
    int const count = stages.count(i);
    unsigned const keys = stages.keys(i), values = stages.values(keys);
    stages.wait(i);
    for (int block = 0; block < count; block += k_position_block) {
      int const some[1] = {count - block}, outside[1] = {first - stages.first(i) - block};
      state.template add_block<true>(keys + static_cast<unsigned>(block * R::row_bytes),
                                     values + static_cast<unsigned>(block * R::row_bytes), count - block,
                                     some, outside);
    }
    __syncwarp();
    if (lane == 0) stages.load(i + k_stages);
  }
  __syncthreads();  // all rings have been read
  auto* const sums = reinterpret_cast<float*>(tessera_attention_shared);
  auto* const weights = store_sums<k_warps>(state, a.group, sums);
  __syncthreads();
  Block block;
  join_parts<Element, HeadSize, k_warps>(a, tile, block, sums, weights);
}

/// `call` of the kernel for a head size, and its shared memory.
template <class Call>
cudaError_t with_kernel(int head_size, Call const& call) {
  switch (head_size) {
    case 64: return call(attend_cached<64>, Room<64>::bytes);
    case 96: return call(attend_cached<96>, Room<96>::bytes);

    case 128: return call(attend_cached<128>, Room<128>::bytes);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace

cudaError_t load_launched_attention(int head_size) {
  return with_kernel(head_size, [](auto* kernel, int bytes) {
    auto const error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (error != cudaSuccess) return error;
    return cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                cudaSharedmemCarveoutMaxShared);
  });
}

cudaError_t attend(LaunchedAttention const& problem, cudaStream_t stream) {
  if (problem.group < 1 || problem.group > k_most_group || problem.splits < 1 ||
      problem.splits > k_most_splits)
    return cudaErrorInvalidValue;
  return with_kernel(problem.head_size, [&](auto* kernel, int bytes) {
    gpu::Shape shape{static_cast<unsigned>(problem.tiles()), Block::threads};
    shape.shared = static_cast<std::size_t>(bytes);
    shape.programmatic = true;
    return gpu::try_launch(shape, stream, kernel, problem);
  });
}

}  // namespace tessera::decode
