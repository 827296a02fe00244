// SPDX-License-Identifier: Apache-2.0
// The kernel: one or two warpgroups that multiply, and two warps that load, one weights and one input. The
// weights' rows are the 64-row operand, the input's rows are the columns. The ring lies in front, barriers
// behind it.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>

#include <tessera/sync/launch.cuh>

#include "instance.hpp"
#include "kernels/skinny_mlp_sm90/activation.cuh"
#include "kernels/skinny_mlp_sm90/hopper.cuh"
#include "kernels/skinny_mlp_sm90/multiply.cuh"

namespace tessera::skinny_gemm {

namespace sm90 = skinny_sm90;

/// A stage is full when both warps that load have announced their bytes and these are there.
constexpr unsigned k_loaders = 2;

struct Ring {
  unsigned base, barriers;

  __device__ unsigned stage(Parameters const& p, int i) const {
    return base + static_cast<unsigned>(i * p.stage_bytes);
  }
  __device__ unsigned full(int i) const { return barriers + static_cast<unsigned>(16 * i); }
  __device__ unsigned empty(int i) const { return full(i) + 8; }
};

/// For what the block itself has asked the copy engine for, or reads itself: it comes whatever others do.
__device__ inline void wait_for(unsigned barrier, unsigned parity) {
  while (!barrier_try(barrier, parity)) {
  }
}

/// One thread: loads each stage's part with `load(stage, k-block, barrier)`.
template <class Load>
__device__ void fill(Parameters const& p, Ring const& ring, int first_block, unsigned bytes,
                     Load const& load) {
  RingPlace place;
  for (int step = 0; step < p.steps; ++step) {
    // Of the first round nothing has to be read.
    if (step >= p.stages) wait_for(ring.empty(place.index), place.parity ^ 1);
    unsigned const full = ring.full(place.index);
    barrier_expect(full, bytes);
    load(ring.stage(p, place.index), first_block + step * p.stage_depth, full);
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
    wait_for(ring.full(place.index), place.parity);
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

/// Writes four neighbouring columns of a row.
__device__ inline void store(Parameters const& p, int row, int column, float4 sums) {
  auto const at = static_cast<long long>(row) * p.columns + column;
  auto const pair = [](float a, float b) {
    auto const two = __floats2bfloat162_rn(a, b);
    unsigned bits;
    memcpy(&bits, &two, sizeof bits);
    return bits;
  };
  switch (p.result) {
    case Result::bf16:
      *reinterpret_cast<uint2*>(static_cast<__nv_bfloat16*>(p.to) + at) = {pair(sums.x, sums.y),
                                                                           pair(sums.z, sums.w)};
      break;
    case Result::fp32: *reinterpret_cast<float4*>(static_cast<float*>(p.to) + at) = sums; break;
    case Result::added: {
      auto* const to = reinterpret_cast<float4*>(static_cast<float*>(p.to) + at);
      float4 const was = *to;
      *to = {was.x + sums.x, was.y + sums.y, was.z + sums.z, was.w + sums.w};
      break;
    }
    case Result::gated:
      *reinterpret_cast<unsigned*>(static_cast<__nv_bfloat16*>(p.to) + at / 2) =
          pair(sm90::silu(sums.x) * sums.y, sm90::silu(sums.z) * sums.w);
      break;
  }
}

template <int Columns, int Warpgroups>
__global__ void __launch_bounds__(Warpgroups * 128 + 64) skinny_gemm(__grid_constant__ Parameters const p) {
  extern __shared__ __align__(1024) unsigned char shared[];
  constexpr int k_multipliers = Warpgroups * 128;
  constexpr int k_pitch = Warpgroups * 64 + 4;  ///< floats of a row of partial sums: no two lanes in one bank
  Ring const ring{shared_address(shared), shared_address(shared) + static_cast<unsigned>(p.barriers_at)};
  int const warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x / 32), 0);
  int const rank = p.split > 1 ? static_cast<int>(cluster_rank()) : 0;
  int const first_column = static_cast<int>(blockIdx.x) / p.split * p.tile;
  int const first_block = rank * p.steps * p.stage_depth;
  bool const loads_weights = threadIdx.x == k_multipliers;
  if (loads_weights) {
    prefetch_map(&p.weights);
    for (int i = 0; i < p.stages; ++i) {
      barrier_init(ring.full(i), k_loaders);
      barrier_init(ring.empty(i), Warpgroups * 4);
    }
    fence_barrier_init();
  }
  __syncthreads();
  if (warp >= k_multipliers / 32) {
    if (loads_weights) {
      auto const policy = streaming_policy();
      fill(p, ring, first_block, static_cast<unsigned>(p.weights_bytes),
           [&](unsigned stage, int block, unsigned full) {
             load_box(stage, &p.weights, 0, first_column, block, full, policy);
           });
    } else if (threadIdx.x == k_multipliers + 32) {
      prefetch_map(&p.input);
      pdl_wait();
      // Not before: what begins behind this launch may read what was complete before it.
      pdl_trigger();
      fill(p, ring, first_block, static_cast<unsigned>(p.stage_bytes - p.weights_bytes),
           [&](unsigned stage, int block, unsigned full) {
             load_box(stage + static_cast<unsigned>(p.weights_bytes), &p.input, 0, 0, block, full);
           });
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
  if (p.split > 1) {
    cluster_arrive();
    cluster_wait();
  } else {
    __syncthreads();
  }
  pdl_wait();  // for each thread that reads or writes what others have
  // A block of a cluster finishes every so many rows of it. A thread has four columns of a row.
  int const quads = p.tile / 4;
  int const rows_at_once = (k_multipliers + 64) / quads;
  int const column = static_cast<int>(threadIdx.x) % quads * 4;
  bool const any = static_cast<int>(threadIdx.x) < rows_at_once * quads && first_column + column < p.columns;
  for (int i = static_cast<int>(threadIdx.x) / quads; any; i += rows_at_once) {
    int const row = rank + i * p.split;
    if (row >= p.rows) break;
    unsigned const at = ring.base + static_cast<unsigned>(4 * (row * k_pitch + column));
    float4 sum{0, 0, 0, 0};
    if (p.split > 1) {
#pragma unroll 4
      for (int other = 0; other < p.split; ++other) {
        float4 const part = load_remote_quad(in_block(at, static_cast<unsigned>(other)));
        sum.x += part.x, sum.y += part.y, sum.z += part.z, sum.w += part.w;
      }
    } else {
      sum = sm90::load_shared(at);
    }
    store(p, row, first_column + column, sum);
  }
  if (p.split > 1) {  // others read here until then
    __syncwarp();
    cluster_arrive();
    cluster_wait();
  }
}

template <int Columns>
Instance make_instance() {
  return {{reinterpret_cast<void const*>(&skinny_gemm<Columns, 1>),
           reinterpret_cast<void const*>(&skinny_gemm<Columns, 2>)}};
}

}  // namespace tessera::skinny_gemm
