// SPDX-License-Identifier: Apache-2.0
#include "fused.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "src/gpu/launch.hpp"
#include "tessera/sync/data_token.cuh"
#include "tessera/sync/launch.cuh"
#include "tessera/sync/memory.cuh"
#include "tessera/sync/runtime_stage.cuh"

namespace tessera::gemm_collectives {
namespace {

using Words3 = Packet<3>;
constexpr int k_most_threads = 32 * FusedPlan::k_most_warps;
/// A warp's weights of one chunk: 16 rows of b, 128 of depth, as each lane holds them. Products do not care
/// in which order depth is added, so a lane takes eight elements that lie side by side where the instruction
/// counts two and two: of the weights and of a alike.
constexpr int k_pieces = 8;

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

/// Weights are read once.
__device__ uint4 stream_in(void const* from) {
  uint4 value;
  asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(from));
  return value;
}

/// 16 bytes into shared memory; zeros if not `there`.
__device__ void copy_in(unsigned to, void const* from, bool there) {
  int const bytes = there ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
__device__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// All but the last group.
__device__ void await_copies() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }

template <HalfType T>
__device__ void multiply(float (&sum)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0,
                         unsigned b1) {
  if constexpr (T == HalfType::bf16)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

/// What a thread knows of its block, and what it does in each pass.
template <HalfType T, int RowTiles>
struct Worker {
  FusedProduct const& a;
  FusedPlan const& plan;
  char* shared;
  int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  int group = lane / 4, member = lane % 4;
  int tile = warp / plan.splits, split = warp % plan.splits;
  int chunks = (a.depth + plan.depth() - 1) / plan.depth();
  float sums[RowTiles][4] = {};

  __device__ int all() const { return chunks * plan.passes; }
  __device__ int first_column(int pass) const {
    return (static_cast<int>(blockIdx.x) * plan.passes + pass) * plan.columns();
  }

  __device__ void load_weights(uint4 (&to)[k_pieces], int turn) const {
    int const pass = turn / chunks, row = first_column(pass) + tile * FusedPlan::k_columns + group;
    int const k = turn % chunks * plan.depth() + split * FusedPlan::k_warp_depth + 8 * member;
    auto const* const from =
        static_cast<unsigned short const*>(a.b) + static_cast<long long>(row) * a.depth + k;
#pragma unroll
    for (int i = 0; i < k_pieces / 2; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        bool const there = turn < all() && row + 8 * half < a.columns && k + 32 * i < a.depth;
        to[2 * i + half] = there ? stream_in(from + static_cast<long long>(8 * half) * a.depth + 32 * i)
                                 : make_uint4(0, 0, 0, 0);
      }
  }
  __device__ char* buffer(int turn) const {
    return shared + turn % FusedPlan::k_buffers * plan.buffer_bytes();
  }
  /// By the whole block.
  __device__ void load_rows(int turn) const {
    if (turn < all()) {
      int const first = turn % chunks * plan.depth(), pieces = plan.depth() / 8;
      for (int row = warp; row < a.rows; row += plan.tiles * plan.splits)
        for (int piece = lane; piece < pieces; piece += 32) {
          int const k = first + 8 * piece;
          bool const there = k < a.depth;
          auto const* const from = static_cast<unsigned short const*>(a.a) +
                                   static_cast<long long>(row) * a.depth + (there ? k : 0);
          char* const to = buffer(turn) + row * plan.row_stride() + 16 * piece;
          copy_in(static_cast<unsigned>(__cvta_generic_to_shared(to)), from, there);
        }
    }
    commit_copies();
  }
  __device__ void add(uint4 const (&weights)[k_pieces], int turn) {
    char const* const from =
        buffer(turn) + group * plan.row_stride() + 2 * split * FusedPlan::k_warp_depth + 16 * member;
#pragma unroll
    for (int i = 0; i < k_pieces / 2; ++i) {
      uint4 const low = weights[2 * i], high = weights[2 * i + 1];
#pragma unroll
      for (int n = 0; n < RowTiles; ++n) {
        // Rows beyond the last one are whatever lies there: of columns of the sums that nobody reads.
        uint4 const row = *reinterpret_cast<uint4 const*>(from + 8 * n * plan.row_stride() + 64 * i);
        multiply<T>(sums[n], low.x, high.x, low.y, high.y, row.x, row.y);
        multiply<T>(sums[n], low.z, high.z, low.w, high.w, row.z, row.w);
      }
    }
  }
  __device__ float* sum_at(int of_split, int row) const {
    return reinterpret_cast<float*>(shared + plan.sums_at()) +
           (of_split * 8 * RowTiles + row) * plan.sum_stride();
  }
  /// Where all can read them; from zero again.
  __device__ void hand_in() {
    int const column = tile * FusedPlan::k_columns + group;
#pragma unroll
    for (int n = 0; n < RowTiles; ++n) {
      int const row = 8 * n + 2 * member;
      sum_at(split, row)[column] = sums[n][0];
      sum_at(split, row + 1)[column] = sums[n][1];
      sum_at(split, row)[column + 8] = sums[n][2];
      sum_at(split, row + 1)[column + 8] = sums[n][3];
      for (float& one : sums[n]) one = 0;
    }
  }
  __device__ unsigned* own(int packet) const {
    return reinterpret_cast<unsigned*>(shared + plan.own_at()) + 3 * packet;
  }
};

/// What a block has summed, to all peers; and kept.
template <HalfType T, int RowTiles>
__device__ void send(Worker<T, RowTiles> const& worker, PeerOperation const& operation, int pass,
                     unsigned launch) {
  auto const& a = worker.a;
  auto const& plan = worker.plan;
  int const packets = plan.packets(a.rows), columns = plan.columns();
  long long const all = plan.all_packets(a.rows);
  long long const mine = (static_cast<long long>(launch % 2) * operation.ranks + operation.rank) * all +
                         (static_cast<long long>(blockIdx.x) * plan.passes + pass) * packets;
  for (int packet = static_cast<int>(threadIdx.x); packet < packets; packet += static_cast<int>(blockDim.x)) {
    unsigned words[3] = {};
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      int const element = FusedPlan::k_elements * packet + 2 * i, row = element / columns,
                column = element % columns;
      if (row >= a.rows) continue;
      float2 sum = {};
      for (int split = 0; split < plan.splits; ++split) {
        float2 const one = *reinterpret_cast<float2 const*>(worker.sum_at(split, row) + column);
        sum.x += one.x;
        sum.y += one.y;
      }
      words[i] = bits_of<T>(sum);
    }
    for (int step = 0; step + 1 < operation.ranks; ++step) {
      int const peer = (operation.rank + 1 + step) % operation.ranks;  // as send_order()
      put<Scope::system>(static_cast<Words3*>(a.packets[peer]) + mine + packet,
                         {{words[0], words[1], words[2]}, 0}, launch);
    }
    unsigned* const own = worker.own(pass * packets + packet);
    own[0] = words[0], own[1] = words[1], own[2] = words[2];
  }
}

/// Adds what comes from all ranks, in their order.
template <HalfType T, int RowTiles>
__device__ void receive(Worker<T, RowTiles> const& worker, PeerOperation const& operation, unsigned launch) {
  constexpr int k_at_once = 4;
  auto const& a = worker.a;
  auto const& plan = worker.plan;
  int const packets = plan.packets(a.rows), columns = plan.columns();
  long long const all = plan.all_packets(a.rows);
  long long const here = static_cast<long long>(blockIdx.x) * plan.passes * packets;
  for (int at = static_cast<int>(threadIdx.x); at < plan.passes * packets;
       at += static_cast<int>(blockDim.x)) {
    auto const from = [&](int source) {
      return static_cast<Words3 const*>(a.packets[operation.rank]) +
             (static_cast<long long>(launch % 2) * operation.ranks + source) * all + here + at;
    };
    float2 sum[3] = {};
    for (int first = 0; first < operation.ranks; first += k_at_once) {
      Words3 seen[k_at_once];
#pragma unroll
      for (int i = 0; i < k_at_once; ++i)
        if (first + i < operation.ranks && first + i != operation.rank)
          detail::load_item<Scope::system>(seen[i], from(first + i));
#pragma unroll
      for (int i = 0; i < k_at_once; ++i) {
        int const source = first + i;
        if (source >= operation.ranks) break;
        unsigned const* words = worker.own(at);
        if (source != operation.rank) {
          Words3 one[1] = {seen[i]};
          if (!carries(one[0], launch) &&
              !take<Scope::system>(from(source), 0, launch, one, operation.watch,
                                   {static_cast<int>(PeerWord::partial_words),
                                    static_cast<long long>(blockIdx.x) * k_most_ranks + source, source}))
            return;
          seen[i] = one[0];
          words = seen[i].payload;
        }
#pragma unroll
        for (int j = 0; j < 3; ++j) {
          float2 const pair = pair_of<T>(words[j]);
          sum[j].x += pair.x;
          sum[j].y += pair.y;
        }
      }
    }
    int const pass = at / packets, packet = at % packets;
#pragma unroll
    for (int j = 0; j < 3; ++j) {
      int const element = FusedPlan::k_elements * packet + 2 * j, row = element / columns;
      int const column = worker.first_column(pass) + element % columns;
      if (row < a.rows && column < a.columns)
        *reinterpret_cast<unsigned*>(static_cast<unsigned short*>(a.d) +
                                     static_cast<long long>(row) * a.columns + column) = bits_of<T>(sum[j]);
    }
  }
}

template <HalfType T, int RowTiles>
__global__ void __launch_bounds__(k_most_threads, 1)
    multiply_and_sum(__grid_constant__ PeerOperation const operation, __grid_constant__ FusedProduct const a,
                     __grid_constant__ FusedPlan const plan, LaunchedBlocks const blocks) {
  extern __shared__ __align__(128) char shared[];
  __shared__ unsigned number;
  Worker<T, RowTiles> worker{a, plan, shared};
  uint4 some[k_pieces], others[k_pieces];
  worker.load_weights(some, 0);
  if (threadIdx.x == 0) {
    number = blocks.launches(draw_ticket(&operation.control[operation.rank]->tickets[0]));
    // Behind its ticket: the next launch's blocks draw theirs when all of these have.
    pdl_trigger();
  }
  pdl_wait();
  worker.load_rows(0);
  worker.load_rows(1);
  auto const step = [&](uint4(&now)[k_pieces], uint4(&next)[k_pieces], int turn) {
    worker.load_weights(next, turn + 1);
    await_copies();
    __syncthreads();
    // The buffer that all have left.
    worker.load_rows(turn + 2);
    worker.add(now, turn);
    if ((turn + 1) % worker.chunks != 0) return;
    worker.hand_in();
    __syncthreads();
    send(worker, operation, turn / worker.chunks, number);
  };
  int const all = worker.all();
  for (int turn = 0; turn < all; turn += 2) {
    step(some, others, turn);
    if (turn + 1 < all) step(others, some, turn + 1);
  }
  __syncthreads();
  receive(worker, operation, number);
}

using Kernel = void (*)(PeerOperation, FusedProduct, FusedPlan, LaunchedBlocks);

template <HalfType T>
Kernel kernel_for(int row_tiles) {
  switch (row_tiles) {
    case 1: return &multiply_and_sum<T, 1>;
    case 2: return &multiply_and_sum<T, 2>;
    default: return &multiply_and_sum<T, 4>;
  }
}

}  // namespace

std::size_t fused_packet_bytes(int rows, int columns, int ranks) {
  return sizeof(Words3) * 2 * static_cast<std::size_t>(ranks) *
         static_cast<std::size_t>(fused_plan(rows, columns).all_packets(rows));
}

int load_fused() {
  for (int const row_tiles : {1, 2, 4})
    for (auto const kernel : {kernel_for<HalfType::bf16>(row_tiles), kernel_for<HalfType::fp16>(row_tiles)}) {
      // More than any plan asks for is refused by the launch itself.
      constexpr int k_most_shared = 200 << 10;
      if (auto const error = cudaFuncSetAttribute(reinterpret_cast<void const*>(kernel),
                                                  cudaFuncAttributeMaxDynamicSharedMemorySize, k_most_shared);
          error != cudaSuccess)
        return error;
      cudaFuncAttributes attributes{};
      if (auto const error = cudaFuncGetAttributes(&attributes, reinterpret_cast<void const*>(kernel));
          error != cudaSuccess)
        return error;
    }
  return cudaSuccess;
}

int fused_all_reduce(PeerOperation const& operation, FusedProduct const& product, CUstream_st* stream) {
  auto const plan = fused_plan(product.rows, product.columns);
  if (plan.tiles == 0) return cudaErrorInvalidValue;
  gpu::Shape shape;
  shape.blocks = static_cast<unsigned>(plan.blocks);
  shape.threads = static_cast<unsigned>(plan.threads());
  shape.shared = static_cast<std::size_t>(plan.shared_bytes(product.rows));
  shape.programmatic = true;
  auto const kernel = product.type == HalfType::bf16 ? kernel_for<HalfType::bf16>(plan.row_tiles)
                                                     : kernel_for<HalfType::fp16>(plan.row_tiles);
  return gpu::try_launch(shape, stream, kernel, operation, product, plan, LaunchedBlocks(shape.blocks.x));
}

}  // namespace tessera::gemm_collectives
