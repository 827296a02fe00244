// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/launched_attention.hpp"

#include <cuda_bf16.h>

#include <algorithm>
#include <tessera/sync.cuh>

#include "kernels/decode/cache_pages.cuh"
#include "kernels/decode/join_in_cluster.cuh"
#include "kernels/decode/new_head.cuh"
#include "src/gpu/launch.hpp"

namespace tessera::decode {
namespace {

using Element = __nv_bfloat16;

/// How a block is made: warps with rings of their own over its positions, and how many blocks are to run on
/// an SM. Many blocks overlap the begin of one with the end of another. Where there are few, a block has as
/// many warps as its share of the SM allows. `in_flight`: stages of a warp that are on their way at once. The
/// memory needs some 64 KB of an SM; what else is on its way, as are the queries, waits behind it.
template <int HeadSize>
struct Many {
  static constexpr int warps = 4, stages = HeadSize == 64 ? 3 : 2, in_flight = stages - 1, positions = 16;
  static constexpr int blocks = launched_blocks(HeadSize);
};
template <int HeadSize>
struct Two {
  static constexpr int warps = 8, stages = HeadSize == 64 ? 3 : 1, positions = 16;
  static constexpr int in_flight = HeadSize == 64 ? 2 : 1;
  static constexpr int blocks = 2;
};
template <int HeadSize>
struct Alone {
  static constexpr int warps = 8, stages = 3, in_flight = 1, positions = HeadSize == 64 ? 32 : 16;
  static constexpr int blocks = 1;
};
enum class Blocks { many, two, alone };

/// A block's shared memory: rings of the warps, a stage of which has keys of some positions and their values
/// behind them. Sums of the warps come to the same place later.
template <int HeadSize, template <int> class Make>
struct Room {
  static constexpr int row_bytes = 2 * HeadSize;
  static constexpr int warps = Make<HeadSize>::warps, stages = Make<HeadSize>::stages;
  static constexpr int positions = Make<HeadSize>::positions;  ///< of a stage
  static constexpr int in_flight = Make<HeadSize>::in_flight;
  static_assert(in_flight >= 1 && in_flight <= stages);
  static constexpr int stage_bytes = 2 * positions * row_bytes;
  static constexpr int bytes = warps * stages * stage_bytes;
  static_assert(bytes >= static_cast<int>(sizeof(float)) * k_most_group *
                             (warps * (attention_pitch(HeadSize) + 2) + HeadSize + 2));
};

/// What last_to_arrive() and join_parts() ask of who computes.
template <int Warps>
struct Block {
  static constexpr int threads = 32 * Warps;
  /// Nobody stops; a barrier, as last_to_arrive() asks for.
  __device__ static bool anyone_stopped() { return __syncthreads_or(0) != 0; }
  __device__ static bool anyone(bool one) { return __syncthreads_or(one) != 0; }
};

/// A warp's ring over its share of the positions: stages of the part in turns. `Paged`: the cache has pages.
/// Where that was asked at run time, a block's first load came only when the launch before was complete.
template <int HeadSize, bool Paged, class R>
class Stages {
 public:
  __device__ Stages(LaunchedAttention const& a, AttentionTile const& tile, Positions const& earlier,
                    unsigned ring, unsigned barriers)
      : a_(a), tile_(tile), earlier_(earlier), ring_(ring), barriers_(barriers) {}

  __device__ int first(int stage) const {
    return earlier_.begin + (stage * R::warps + static_cast<int>(threadIdx.x) / 32) * R::positions;
  }
  __device__ int count(int stage) const { return min(R::positions, earlier_.end - first(stage)); }
  __device__ unsigned keys(int stage) const {
    return ring_ + static_cast<unsigned>(stage % R::stages * R::stage_bytes);
  }
  __device__ static unsigned values(unsigned keys) { return keys + R::positions * R::row_bytes; }

  /// One lane.
  __device__ void load(int stage) const {
    if (first(stage) >= earlier_.end) return;
    int const begin = first(stage), end = begin + count(stage);
    barrier_expect(barrier(stage), static_cast<unsigned>(2 * (end - begin) * R::row_bytes));
    unsigned long long const policy = streaming_policy();
    for (int at = begin; at < end;) {
      int const upto =
          !Paged ? end : min(end, (at / a_.cache.pages.positions + 1) * a_.cache.pages.positions);
      long long const row = row_of(at);
      auto const bytes = static_cast<unsigned>((upto - at) * R::row_bytes);
      unsigned const to = keys(stage) + static_cast<unsigned>((at - begin) * R::row_bytes);
      load_bulk(to, static_cast<Element const*>(a_.cache.keys) + row, bytes, barrier(stage), policy);
      load_bulk(values(to), static_cast<Element const*>(a_.cache.values) + row, bytes, barrier(stage),
                policy);
      at = upto;
    }
  }
  /// The copy engine brings what the warp itself has asked for: this comes whatever other blocks do.
  __device__ void wait(int stage) const {
    while (!barrier_try(barrier(stage), static_cast<unsigned>(stage / R::stages % 2))) {
    }
  }

  /// Where a new token goes; below 0: it has no page.
  __device__ long long row_to_write(int position) const {
    if constexpr (!Paged) return row(position);
    int const in = page(position);
    return in < 0 ? -1 : row_in(in, position);
  }

 private:
  __device__ unsigned barrier(int stage) const {
    return barriers_ + static_cast<unsigned>(stage % R::stages * 8);
  }
  /// A page that there is not: another one in its place.
  __device__ long long row_of(int position) const {
    return !Paged ? row(position) : row_in(max(page(position), 0), position);
  }
  __device__ int page(int position) const { return page_of(a_.cache.pages, tile_.sequence, position); }
  __device__ long long row_in(int page, int position) const {
    return row_of_page<HeadSize>(a_.cache.pages, page, a_.kv_heads, tile_.head, position);
  }
  __device__ long long row(int position) const {
    return (static_cast<long long>(tile_.sequence * a_.kv_heads + tile_.head) * a_.cache.capacity +
            position) *
           HeadSize;
  }

  LaunchedAttention const& a_;
  AttentionTile tile_;
  Positions earlier_;
  unsigned ring_, barriers_;
};

/// The new token's key and value of a block, of which all warps have the same.
template <int HeadSize>
struct Newest {
  using Head = NewHead<Element, HeadSize>;
  typename Head::Fragment key, value;

  /// `row`: of the sequence; `shift`: of all of its elements.
  __device__ Newest(LaunchedAttention const& a, Element const* row, float const* shift, int head,
                    Turn const* turns) {
    int const of_key = a.at.key + head * a.at.keys, of_value = a.at.value + head * a.at.keys;
    Head k(row + of_key, shift == nullptr ? nullptr : shift + of_key),
        v(row + of_value, shift == nullptr ? nullptr : shift + of_value);
    k.norm(a.key_gains, a.norm_epsilon);
    k.turn_to(turns, key), v.round_to(value);
  }
  /// A value of no numbers, which makes all results of its sequence so.
  __device__ void make_no_numbers() {
#pragma unroll
    for (int i = 0; i < HeadSize / 8; ++i) value[i / 2][i % 2] = 0x7fff7fff;
  }
  /// One warp: the query heads' lanes have the same, each stores some of it.
  __device__ void store(LayerCache const& cache, long long row, int position) const {
    int const lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int i = 0; i < HeadSize / 8; ++i) {
      if (lane / 4 != i % 8) continue;
      auto const at = row + place_in_row(position, 8 * i + lane % 4 * 2, HeadSize);
      *reinterpret_cast<unsigned*>(static_cast<Element*>(cache.keys) + at) = key[i / 2][i % 2];
      *reinterpret_cast<unsigned*>(static_cast<Element*>(cache.values) + at) = value[i / 2][i % 2];
    }
  }
};

/// A block for each sequence, key head and part.
template <int HeadSize, bool Paged, template <int> class Make>
__global__ void __launch_bounds__(32 * Make<HeadSize>::warps, Make<HeadSize>::blocks)
    attend_cached(LaunchedAttention const __grid_constant__ a) {
  using R = Room<HeadSize, Make>;
  extern __shared__ __align__(128) unsigned char tessera_attention_shared[];
  __shared__ __align__(8) unsigned long long barriers[R::warps][R::stages];
  int const warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x % 32);
  if (lane == 0) {
    for (int i = 0; i < R::stages; ++i) barrier_init(shared_address(&barriers[warp][i]), 1);
    fence_barrier_init();
  }
  __syncwarp();
  pdl_trigger();
  auto const tile = attention_tile(static_cast<int>(blockIdx.x), a.kv_heads, a.splits);
  int const cached = __ldcg(a.cached + tile.sequence);
  bool const has_room = Paged || (cached >= 0 && cached < a.cache.capacity);
  int const position = has_room ? cached : 0, first = first_seen(position, a.window);
  auto const seen = positions_from(first, position + 1, a.splits, tile.split);
  Positions const earlier{seen.begin, min(seen.end, position)};
  bool const sees_newest = seen.begin <= position && position < seen.end;
  Stages<HeadSize, Paged, R> const stages(
      a, tile, earlier,
      shared_address(tessera_attention_shared) + static_cast<unsigned>(warp * R::stages * R::stage_bytes),
      shared_address(barriers[warp]));
  if (lane == 0)
    for (int i = 0; i < R::in_flight; ++i) stages.load(i);
  pdl_wait();

  using Warp = AttentionWarp<Element, HeadSize>;
  Warp state(a.scale);
  auto const* const turns =
      a.turns == nullptr ? nullptr : a.turns + static_cast<long long>(position) * (HeadSize / 2);
  auto const* const row =
      static_cast<Element const*>(a.qkv) + static_cast<long long>(tile.sequence) * a.at.row;
  int const mine = tile.head * a.at.queries + min(lane / 4, a.group - 1) * HeadSize;
  NewHead<Element, HeadSize> query(row + mine, a.shifts == nullptr ? nullptr : a.shifts + mine);
  query.norm(a.query_gains, a.norm_epsilon);
  query.turn_to(turns, state.queries[0]);
  if (sees_newest && (warp == 0 || warp == R::warps - 1)) {
    Newest<HeadSize> newest(a, row, a.shifts, tile.head, turns);
    if (!has_room) newest.make_no_numbers();
    if (warp == 0) state.begin_with(newest.key, newest.value);
    if (warp == R::warps - 1 && has_room)
      if (long long const to = stages.row_to_write(position); to >= 0) newest.store(a.cache, to, position);
  }

  for (int i = 0; stages.first(i) < earlier.end; ++i) {
    int const count = stages.count(i);
    unsigned const keys = stages.keys(i), values = stages.values(keys);
    stages.wait(i);
    // Where the ring has no room beyond what is in flight: behind what is read.
    if (R::in_flight < R::stages && lane == 0) stages.load(i + R::in_flight);
    __syncwarp();
#pragma unroll
    for (int block = 0; block < R::positions; block += k_position_block) {
      if (block >= count) break;
      int const some[1] = {count - block}, outside[1] = {first - stages.first(i) - block};
      state.template add_block<true>(keys + static_cast<unsigned>(block * R::row_bytes),
                                     values + static_cast<unsigned>(block * R::row_bytes), count - block,
                                     some, outside);
    }
    __syncwarp();
    if (R::in_flight == R::stages && lane == 0) stages.load(i + R::stages);
  }
  __syncthreads();  // all rings have been read
  auto* const sums = reinterpret_cast<float*>(tessera_attention_shared);
  auto* const weights = store_sums<R::warps>(state, a.group, sums);
  __syncthreads();
  if (a.in_clusters) {
    join_in_cluster<Element, HeadSize, R::warps>(a, tile, sums, weights);
    return;
  }
  Block<R::warps> block;
  join_parts<Element, HeadSize, R::warps>(a, tile, block, sums, weights);
}

template <bool Paged, template <int> class Make, class Call>
cudaError_t with_kernel_of(int head_size, Call const& call) {
  auto const with = [&](auto size) {
    constexpr int of = decltype(size)::value;
    return call(attend_cached<of, Paged, Make>, Room<of, Make>::bytes, Make<of>::warps);
  };
  switch (head_size) {
    case 64: return with(std::integral_constant<int, 64>{});
    case 96: return with(std::integral_constant<int, 96>{});
    case 128: return with(std::integral_constant<int, 128>{});
    default: return cudaErrorInvalidValue;
  }
}
template <bool Paged, class Call>
cudaError_t with_kernel_of(int head_size, Blocks blocks, Call const& call) {
  switch (blocks) {
    case Blocks::alone: return with_kernel_of<Paged, Alone>(head_size, call);
    case Blocks::two: return with_kernel_of<Paged, Two>(head_size, call);
    default: return with_kernel_of<Paged, Many>(head_size, call);
  }
}
/// `call` of the kernel, its shared memory and its warps.
template <class Call>
cudaError_t with_kernel(int head_size, bool paged, Blocks blocks, Call const& call) {
  return paged ? with_kernel_of<true>(head_size, blocks, call)
               : with_kernel_of<false>(head_size, blocks, call);
}

}  // namespace

cudaError_t load_launched_attention(int head_size, bool paged) {
  auto error = cudaSuccess;
  for (auto const blocks : {Blocks::many, Blocks::two, Blocks::alone})
    if (error == cudaSuccess)
      error = with_kernel(head_size, paged, blocks, [](auto* kernel, int bytes, int) {
        auto const of_bytes =
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
        if (of_bytes != cudaSuccess) return of_bytes;
        return cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                    cudaSharedmemCarveoutMaxShared);
      });
  return error;
}

namespace {

Blocks blocks_of(LaunchedAttention const& problem) {
  return problem.tiles() <= problem.sms       ? Blocks::alone
         : problem.tiles() <= 2 * problem.sms ? Blocks::two
                                              : Blocks::many;
}
gpu::Shape shape_of(LaunchedAttention const& problem, int bytes, int warps, bool clusters) {
  gpu::Shape shape{static_cast<unsigned>(problem.tiles()), static_cast<unsigned>(32 * warps)};
  shape.shared = static_cast<std::size_t>(bytes);
  shape.programmatic = true;
  if (clusters) shape.cluster = static_cast<unsigned>(problem.splits);
  return shape;
}

}  // namespace

bool clusters_fit(LaunchedAttention const& problem) {
  if (!parts_share_cluster(problem.tiles(), problem.splits, problem.sms)) return false;
  int clusters = 0;
  auto const error = with_kernel(problem.head_size, problem.paged(), blocks_of(problem),
                                 [&](auto* kernel, int bytes, int warps) {
                                   auto shape = shape_of(problem, bytes, warps, true);
                                   shape.programmatic = false;  // nothing of it counts here
                                   gpu::LaunchConfiguration const launch(shape, nullptr);
                                   return cudaOccupancyMaxActiveClusters(&clusters, kernel, launch.get());
                                 });
  (void)cudaGetLastError();  // what cannot be asked does not fit
  return error == cudaSuccess && clusters * problem.splits >= problem.tiles();
}

cudaError_t attend(LaunchedAttention const& problem, cudaStream_t stream, bool early) {
  if (problem.group < 1 || problem.group > k_most_group || problem.splits < 1 ||
      problem.splits > k_most_splits || (problem.in_clusters && problem.splits > k_most_cluster))
    return cudaErrorInvalidValue;
  return with_kernel(problem.head_size, problem.paged(), blocks_of(problem),
                     [&](auto* kernel, int bytes, int warps) {
                       auto shape = shape_of(problem, bytes, warps, problem.in_clusters);
                       shape.programmatic = early;
                       return gpu::try_launch(shape, stream, kernel, problem);
                     });
}

}  // namespace tessera::decode
