// SPDX-License-Identifier: Apache-2.0
// The kernel: one or two warpgroups that multiply, two warps that load, one weights and one input, and four
// for the input's norm. The weights' rows are the 64-row operand, the input's rows are the columns. The ring
// lies in front, barriers behind it.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>

#include <tessera/sync/cluster.cuh>
#include <tessera/sync/launch.cuh>

#include "instance.hpp"
#include "kernels/skinny_mlp_sm90/activation.cuh"
#include "kernels/skinny_mlp_sm90/hopper.cuh"
#include "kernels/skinny_mlp_sm90/multiply.cuh"

namespace tessera::skinny_gemm {

namespace sm90 = skinny_sm90;

/// Stages of weights, with the input behind them, and three barriers of each.
struct Ring {
  unsigned base, barriers;

  __device__ unsigned stage(Parameters const& p, int i) const {
    return base + static_cast<unsigned>(i * p.stage_bytes);
  }
  __device__ unsigned weights(int i) const {
    return barriers + static_cast<unsigned>(k_stage_barrier_bytes * i);
  }
  __device__ unsigned input(int i) const { return weights(i) + 8; }
  __device__ unsigned empty(int i) const { return weights(i) + 16; }
};

/// For what the block itself has asked the copy engine for, or reads itself: it comes whatever others do.
__device__ inline void wait_for(unsigned barrier, unsigned parity) {
  while (!barrier_try(barrier, parity)) {
  }
}

/// One thread: loads each stage's part with `load(place in the ring, k-block)`. `in_flight`: stages that are
/// on their way at once, by their barriers `full(i)`. More than the memory needs would only be in the way of
/// what is asked for behind them.
template <class Full, class Load>
__device__ void fill(Parameters const& p, Ring const& ring, int first_block, unsigned bytes, int in_flight,
                     Full const& full, Load const& load) {
  RingPlace place, landing;
  for (int step = 0; step < p.steps; ++step) {
    // Of the first round nothing has to be read.
    if (step >= p.stages) wait_for(ring.empty(place.index), place.parity ^ 1);
    if (step >= in_flight) {
      wait_for(full(landing.index), landing.parity);
      landing.next(p.stages);
    }
    barrier_expect(full(place.index), bytes);
    load(place.index, first_block + step * p.stage_depth);
    place.next(p.stages);
  }
}

/// The sums over this block's part of the depth, `Depth` blocks of 64 at a time.
template <int Columns, int Depth>
__device__ void multiply(Parameters const& p, Ring const& ring, int warpgroup, int weights_pitch,
                         float (&sums)[Columns / 2]) {
  RingPlace place;
  for (int step = 0; step < p.steps; ++step) {
    unsigned const stage = ring.stage(p, place.index);
    unsigned weights[Depth], input[Depth];
#pragma unroll
    for (int d = 0; d < Depth; ++d) {
      weights[d] =
          sm90::operand_place(stage + static_cast<unsigned>(warpgroup * 64 * 128 + d * weights_pitch));
      input[d] = sm90::operand_place(stage + static_cast<unsigned>(p.weights_bytes + d * p.box_rows * 128));
    }
    wait_for(ring.weights(place.index), place.parity);
    wait_for(ring.input(place.index), place.parity);
    sm90::multiply_fence();
#pragma unroll
    for (int d = 0; d < Depth; ++d)
#pragma unroll
      for (unsigned part = 0; part < 4; ++part)
        sm90::Multiply<__nv_bfloat16, Columns>::run(sums, sm90::operand(weights[d] + 2 * part),
                                                    sm90::operand(input[d] + 2 * part));
    sm90::multiply_commit();
    unsigned const empty = ring.empty(place.index);
    place.next(p.stages);
    sm90::multiply_wait<0>();
    if (threadIdx.x % 32 == 0) barrier_arrive(empty);
  }
  sm90::settle(sums);
}

/// What sums of each of the input's rows are multiplied by, to shared memory. `thread`: of k_norm_threads.
/// Neighbouring lanes share a row, as many as there are rows for. Short code: it is run once, and
/// instructions come from memory, too.
__device__ inline void find_scales(Parameters const& p, float* scales, int thread) {
  constexpr int loads = 4;  // of a lane, on their way together
  int const quads = p.depth / k_squares_block / 4;
  int lanes = 32;  // of a row
  while (lanes > 1 && k_norm_threads / lanes < p.rows) lanes /= 2;
  for (int row = thread / lanes; row < p.rows; row += k_norm_threads / lanes) {
    auto const* const squares = reinterpret_cast<float4 const*>(p.norm.squares) + row * quads;
    float sum = 0;
    for (int quad = thread % lanes; quad < quads; quad += loads * lanes) {
      float4 four[loads];
#pragma unroll
      for (int i = 0; i < loads; ++i) four[i] = __ldcg(squares + min(quad + i * lanes, quads - 1));
#pragma unroll
      for (int i = 0; i < loads; ++i)
        sum += quad + i * lanes < quads ? four[i].x + four[i].y + (four[i].z + four[i].w) : 0;
    }
    unsigned const together = lanes == 32 ? ~0u : ((1u << lanes) - 1) << (thread % 32 / lanes * lanes);
    for (int apart = lanes / 2; apart > 0; apart /= 2) sum += __shfl_xor_sync(together, sum, apart);
    if (thread % lanes == 0) scales[row] = rsqrtf(sum * p.of_depth + p.norm.epsilon);
  }
}

__device__ inline unsigned rounded_pair(float a, float b) {
  auto const two = __floats2bfloat162_rn(a, b);
  unsigned bits;
  memcpy(&bits, &two, sizeof bits);
  return bits;
}
__device__ inline uint2 rounded_quad(float4 const& four) {
  return {rounded_pair(four.x, four.y), rounded_pair(four.z, four.w)};
}

/// Writes four neighbouring columns of a row. Of an added product that leaves them the sum of their squares.
__device__ inline float store(Parameters const& p, int row, int column, float4 sums) {
  auto const at = static_cast<long long>(row) * p.columns + column;
  switch (p.result) {
    case Result::bf16:
      *reinterpret_cast<uint2*>(static_cast<__nv_bfloat16*>(p.to) + at) = rounded_quad(sums);
      break;
    case Result::fp32: {
      auto* const to = static_cast<float*>(p.to) + at;
      if (p.columns % 4 == 0) {
        *reinterpret_cast<float4*>(to) = sums;
        break;
      }
      float const all[4] = {sums.x, sums.y, sums.z, sums.w};
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (column + i < p.columns) to[i] = all[i];
      break;
    }
    case Result::added: {
      auto* const to = reinterpret_cast<float4*>(static_cast<float*>(p.to) + at);
      float4 const was = *reinterpret_cast<float4 const*>(p.from + at);
      float4 const now = {was.x + sums.x, was.y + sums.y, was.z + sums.z, was.w + sums.w};
      *to = now;
      if (p.rounded == nullptr) break;
      *reinterpret_cast<uint2*>(static_cast<__nv_bfloat16*>(p.rounded) + at) = rounded_quad(now);
      return now.x * now.x + now.y * now.y + now.z * now.z + now.w * now.w;
    }
    case Result::gated:
      *reinterpret_cast<unsigned*>(static_cast<__nv_bfloat16*>(p.to) + at / 2) =
          rounded_pair(sm90::silu(sums.x) * sums.y, sm90::silu(sums.z) * sums.w);
      break;
    case Result::gelu:
      *reinterpret_cast<uint2*>(static_cast<__nv_bfloat16*>(p.to) + at) =
          rounded_quad({sm90::gelu(sums.x), sm90::gelu(sums.y), sm90::gelu(sums.z), sm90::gelu(sums.w)});
      break;
  }
  return 0;
}

/// The sum of four neighbouring lanes' squares, which are k_squares_block columns of a row; 0 of columns that
/// there are not. Those four lanes.
__device__ inline void leave_squares(Parameters const& p, int row, int column, float square) {
  int const lane = static_cast<int>(threadIdx.x % 32);
  unsigned const together = 0xfu << (lane / 4 * 4);
  square += __shfl_xor_sync(together, square, 1);
  square += __shfl_xor_sync(together, square, 2);
  int const of_row = (p.columns + k_squares_block - 1) / k_squares_block;
  if (lane % 4 == 0 && column < p.columns) p.squares[row * of_row + column / k_squares_block] = square;
}

/// Sums of a cluster's blocks meet in the block that finishes the row: row r in block r % split, which has
/// room for what each other one sends, [sender][row / split][column of the tile], and a barrier that counts
/// its bytes. st.async counts what it has stored; wait() acquires it, at cluster scope. Blocks of a cluster
/// run together, and each sends before it waits, so the wait ends. A launch uses the room once.
struct Parts {
  Parameters const& p;
  unsigned received, barrier;
  int rank;

  __device__ int rows_of(int block) const { return (p.rows - block + p.split - 1) / p.split; }
  __device__ unsigned place(int sender, int receiver, int row, int column) const {
    int const number = sender < receiver ? sender : sender - 1;
    int const at = (number * ((p.rows + p.split - 1) / p.split) + row / p.split) * p.tile + column;
    return received + static_cast<unsigned>(4 * at);
  }
  /// One thread, before anyone sends.
  __device__ void expect() const {
    barrier_expect(barrier, static_cast<unsigned>((p.split - 1) * rows_of(rank) * p.tile * 4));
  }
  /// To the block that finishes the row, another one.
  __device__ void send(int row, int column, float4 const& sums) const {
    auto const to = static_cast<unsigned>(row % p.split);
    store_remote(in_block(place(rank, row % p.split, row, column), to), in_block(barrier, to), sums.x, sums.y,
                 sums.z, sums.w);
  }
  __device__ void wait() const {
    while (!barrier_try_cluster(barrier, 0)) {
    }
  }
  /// Of a row of this block, in the order of blocks, so that it is the same each time.
  __device__ float4 sum(int row, int column, float4 const& own) const {
    float4 sum{0, 0, 0, 0};
    for (int other = 0; other < p.split; ++other) {
      float4 const part = other == rank ? own : sm90::load_shared(place(other, rank, row, column));
      sum.x += part.x, sum.y += part.y, sum.z += part.z, sum.w += part.w;
    }
    return sum;
  }
};

template <int Columns, int Warpgroups>
__global__ void __launch_bounds__(Warpgroups * 128 + k_other_threads)
    skinny_gemm(__grid_constant__ Parameters const p) {
  extern __shared__ __align__(1024) unsigned char shared[];
  constexpr int k_multipliers = Warpgroups * 128;
  constexpr int k_pitch = Warpgroups * 64 + 4;  ///< floats of a row of partial sums: no two lanes in one bank
  Ring const ring{shared_address(shared), shared_address(shared) + static_cast<unsigned>(p.barriers_at)};
  int const warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x / 32), 0);
  int const rank = p.split > 1 ? static_cast<int>(cluster_rank()) : 0;
  int const first_column = static_cast<int>(blockIdx.x) / p.split * p.tile;
  int const first_block = rank * p.steps * p.stage_depth;
  bool const loads_weights = threadIdx.x == k_multipliers;
  Parts const parts{p, shared_address(shared) + static_cast<unsigned>(p.received_at), ring.weights(p.stages),
                    rank};
  if (loads_weights) {
    prefetch_map(&p.weights);
    if (p.split > 1) barrier_init(parts.barrier, 1);
    for (int i = 0; i < p.stages; ++i) {
      barrier_init(ring.weights(i), 1);
      barrier_init(ring.input(i), 1);
      barrier_init(ring.empty(i), Warpgroups * 4);
    }
    fence_barrier_init();
    if (p.split > 1) parts.expect();
  }
  __syncthreads();
  if (p.split > 1) cluster_arrive_relaxed();  // others may send from then on
  if (warp >= k_multipliers / 32) {
    if (loads_weights) {
      auto const policy = streaming_policy();
      fill(
          p, ring, first_block, static_cast<unsigned>(p.weights_bytes), p.in_flight,
          [&](int i) { return ring.weights(i); },
          [&](int i, int block) {
            load_box(ring.stage(p, i), &p.weights, 0, first_column, block, ring.weights(i), policy);
          });
    } else if (threadIdx.x == k_multipliers + 32) {
      prefetch_map(&p.input);
      pdl_wait();
      // Not before: what begins behind this launch may read what was complete before it.
      pdl_trigger();
      fill(
          p, ring, first_block, static_cast<unsigned>(p.stage_bytes - p.weights_bytes), p.stages,
          [&](int i) { return ring.input(i); },
          [&](int i, int block) {
            load_box(ring.stage(p, i) + static_cast<unsigned>(p.weights_bytes), &p.input, 0, 0, block,
                     ring.input(i));
          });
    } else if (warp >= k_multipliers / 32 + 2 && p.norm.squares != nullptr) {
      pdl_wait();
      find_scales(p, reinterpret_cast<float*>(shared + p.scales_at),
                  static_cast<int>(threadIdx.x) - k_multipliers - 64);
    }
    __syncwarp();
    __syncthreads();
  } else {
    float sums[Columns / 2];
#pragma unroll
    for (int i = 0; i < Columns / 2; ++i) sums[i] = 0;
    if (p.stage_depth == 2)
      multiply<Columns, 2>(p, ring, warp / 4, p.tile * 128, sums);
    else
      multiply<Columns, 4>(p, ring, warp / 4, p.tile * 128, sums);
    // The ring has been read: partial sums lie there now, a row of the product behind the other.
    __syncthreads();
    int const lane = static_cast<int>(threadIdx.x % 32);
    float* const partials = reinterpret_cast<float*>(shared) + warp * 16 + lane / 4;
#pragma unroll
    for (int i = 0; i < Columns / 2; ++i) {
      int const row = i / 4 * 8 + lane % 4 * 2 + i % 2;
      if (row < p.rows) partials[row * k_pitch + i / 2 % 2 * 8] = sums[i];
    }
    __syncwarp();
  }
  __syncthreads();
  pdl_wait();  // for each thread that reads or writes what others have
  // A thread has four columns of a row.
  auto const* const scales = reinterpret_cast<float const*>(shared + p.scales_at);
  int const quads = p.tile / 4;
  int const rows_at_once = (k_multipliers + k_other_threads) / quads;
  int const in_tile = static_cast<int>(threadIdx.x) % quads * 4, column = first_column + in_tile;
  bool const any = static_cast<int>(threadIdx.x) < rows_at_once * quads;
  auto const own = [&](int row) {
    return sm90::load_shared(ring.base + static_cast<unsigned>(4 * (row * k_pitch + in_tile)));
  };
  if (p.split > 1) {
    cluster_wait();
    for (int row = static_cast<int>(threadIdx.x) / quads; any && row < p.rows; row += rows_at_once)
      if (row % p.split != rank) parts.send(row, in_tile, own(row));
    parts.wait();
  }
  for (int i = static_cast<int>(threadIdx.x) / quads; any; i += rows_at_once) {
    int const row = rank + i * p.split;
    if (row >= p.rows) break;
    float square = 0;
    if (column < p.columns) {
      float4 sum = p.split == 1 ? own(row) : parts.sum(row, in_tile, own(row));
      if (p.norm.squares != nullptr) {
        float const by = scales[row];
        sum.x *= by, sum.y *= by, sum.z *= by, sum.w *= by;
      }
      if (p.shift != nullptr) {
        auto const by = __ldg(reinterpret_cast<float4 const*>(p.shift + column));
        sum.x += by.x, sum.y += by.y, sum.z += by.z, sum.w += by.w;
      }
      square = store(p, row, column, sum);
    }
    if (p.squares != nullptr) leave_squares(p, row, column, square);
  }
}

template <int Columns>
Instance make_instance() {
  return {{reinterpret_cast<void const*>(&skinny_gemm<Columns, 1>),
           reinterpret_cast<void const*>(&skinny_gemm<Columns, 2>)}};
}

}  // namespace tessera::skinny_gemm
