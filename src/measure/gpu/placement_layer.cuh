// SPDX-License-Identifier: Apache-2.0
// One layer, out = in x weights in bf16 with fp32 sums, as a kernel with the three parts that programmatic
// launch is about: a prolog that needs nothing from the kernel before, the main loop, the end.
#pragma once

#include <cuda_bf16.h>
#include <mma.h>

#include "measure/gpu/methods/device_clock.cuh"
#include "tessera/sync/launch.cuh"
#include "tessera/sync/record.cuh"

namespace tessera::probe {

enum class TriggerAt { absent, start, middle, end };

struct Layer {
  __nv_bfloat16 const* in;       // rows x inner
  __nv_bfloat16 const* weights;  // inner x columns
  __nv_bfloat16* out;            // rows x columns
  int inner, columns;            // multiples of k_tile
  TriggerAt trigger;
  bool waits;
  BlockStamps* stamps;  // one a block
};

constexpr int k_tile = 64;  // of the output, and of a slice
constexpr int k_layer_threads = 128;
constexpr int k_stages = 5;
constexpr int k_pitch = k_tile + 8;  // no two rows of a column on one bank
constexpr int k_slice = k_tile * k_pitch;
constexpr int k_layer_shared = k_stages * 2 * k_slice * static_cast<int>(sizeof(__nv_bfloat16));

__device__ inline void copy_16_bytes(void* to, void const* from) {
  auto const address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from));
}

/// 64 x 64 elements of a matrix of `pitch` columns.
__device__ inline void load_slice(__nv_bfloat16* to, __nv_bfloat16 const* from, int pitch) {
  constexpr int per_row = k_tile / 8;
  for (int i = static_cast<int>(threadIdx.x); i < k_tile * per_row; i += k_layer_threads)
    copy_16_bytes(to + i / per_row * k_pitch + i % per_row * 8,
                  from + static_cast<long long>(i / per_row) * pitch + i % per_row * 8);
}

__global__ void __launch_bounds__(k_layer_threads) run_layer(Layer layer) {
  using namespace nvcuda;
  extern __shared__ __align__(128) unsigned char shared[];
  auto* const a = reinterpret_cast<__nv_bfloat16*>(shared);
  auto* const b = a + k_stages * k_slice;
  BlockStamps stamps;
  if (threadIdx.x == 0) {
    stamps.started = global_ns();
    stamps.sm = static_cast<int>(sm_index());
  }
  if (layer.trigger == TriggerAt::start) pdl_trigger();
  int const columns = layer.columns / k_tile;
  long long const row = static_cast<long long>(blockIdx.x) / columns * k_tile;
  long long const column = static_cast<long long>(blockIdx.x) % columns * k_tile;
  auto const* const in = layer.in + row * layer.inner;
  auto const* const weights = layer.weights + column;
  int const slices = layer.inner / k_tile;
  auto const load_a = [&](int slice) {
    load_slice(a + slice % k_stages * k_slice, in + slice * k_tile, layer.inner);
  };
  auto const load_b = [&](int slice) {
    load_slice(b + slice % k_stages * k_slice,
               weights + static_cast<long long>(slice) * k_tile * layer.columns, layer.columns);
  };
  // Prolog: the first weights, which no kernel before makes.
  for (int s = 0; s < k_stages - 1; ++s) load_b(s);
  if (threadIdx.x == 0) stamps.waiting = global_ns();
  if (layer.waits) pdl_wait();
  if (threadIdx.x == 0) {
    stamps.ready = global_ns();
    stamps.waiting = layer.waits ? stamps.ready - stamps.waiting : 0;
  }
  for (int s = 0; s < k_stages - 1; ++s) {
    load_a(s);
    asm volatile("cp.async.commit_group;");
  }
  // Four warps with 32 x 32 each.
  int const warp = static_cast<int>(threadIdx.x) / 32, warp_row = warp / 2 * 32, warp_column = warp % 2 * 32;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[2][2];
  for (auto& line : sums)
    for (auto& sum : line) wmma::fill_fragment(sum, 0.f);
  for (int k = 0; k < slices; ++k) {
    asm volatile("cp.async.wait_group %0;" ::"n"(k_stages - 2));
    __syncthreads();
    if (k + k_stages - 1 < slices) {
      load_a(k + k_stages - 1);
      load_b(k + k_stages - 1);
    }
    asm volatile("cp.async.commit_group;");
    if (layer.trigger == TriggerAt::middle && k == slices / 2) pdl_trigger();
    auto const* const slice_a = a + k % k_stages * k_slice + warp_row * k_pitch;
    auto const* const slice_b = b + k % k_stages * k_slice + warp_column;
    for (int kk = 0; kk < k_tile; kk += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> left[2];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::row_major> right[2];
      for (int i = 0; i < 2; ++i) {
        wmma::load_matrix_sync(left[i], slice_a + i * 16 * k_pitch + kk, k_pitch);
        wmma::load_matrix_sync(right[i], slice_b + kk * k_pitch + i * 16, k_pitch);
      }
      for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) wmma::mma_sync(sums[i][j], left[i], right[j], sums[i][j]);
    }
  }
  asm volatile("cp.async.wait_group 0;");
  __syncthreads();
  if (threadIdx.x == 0) stamps.loaded = global_ns();
  auto* const result = reinterpret_cast<float*>(shared);
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j)
      wmma::store_matrix_sync(result + (warp_row + i * 16) * k_pitch + warp_column + j * 16, sums[i][j],
                              k_pitch, wmma::mem_row_major);
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < k_tile * k_tile; i += k_layer_threads)
    layer.out[(row + i / k_tile) * layer.columns + column + i % k_tile] =
        __float2bfloat16(result[i / k_tile * k_pitch + i % k_tile]);
  __syncthreads();
  if (threadIdx.x == 0) stamps.stored = global_ns();
  if (layer.trigger == TriggerAt::end) pdl_trigger();
  if (threadIdx.x == 0) {
    stamps.posted = global_ns();
    layer.stamps[blockIdx.x] = stamps;
  }
}

}  // namespace tessera::probe
