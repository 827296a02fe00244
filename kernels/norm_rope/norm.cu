// SPDX-License-Identifier: Apache-2.0
#include "norm.hpp"

#include <cuda_bf16.h>

#include <tessera/sync.cuh>

#include "src/gpu/launch.hpp"

namespace tessera::kernels {
namespace {

constexpr int k_threads = k_norm_threads;
constexpr int k_warps = k_threads / 32;

/// Of all threads of the block. `sums` is written once a call.
__device__ float sum_of_block(float value, float (&sums)[k_warps]) {
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) value += __shfl_xor_sync(~0u, value, apart);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
  __syncthreads();
  float all = 0;
#pragma unroll
  for (int w = 0; w < k_warps; ++w) all += sums[w];
  return all;
}

__device__ float4 four_of(void const* vector, int piece) {
  auto const two = __ldg(static_cast<uint2 const*>(vector) + piece);
  float2 const low = __bfloat1622float2(*reinterpret_cast<__nv_bfloat162 const*>(&two.x));
  float2 const high = __bfloat1622float2(*reinterpret_cast<__nv_bfloat162 const*>(&two.y));
  return make_float4(low.x, low.y, high.x, high.y);
}

/// A block for a row, of up to 4 * k_threads * Pieces columns.
template <int Pieces>
__global__ void __launch_bounds__(k_threads) norm_rows(Norm const p, bool const triggers_late) {
  __shared__ float sums[2][k_warps];
  if (!triggers_late) pdl_trigger();
  pdl_wait();
  if (triggers_late) pdl_trigger();
  int const pieces = p.columns / 4;
  auto* const x = reinterpret_cast<float4*>(p.x + static_cast<long long>(blockIdx.x) * p.columns);
  float4 held[Pieces];
  float total = 0;
#pragma unroll
  for (int i = 0; i < Pieces; ++i) {
    int const piece = i * k_threads + static_cast<int>(threadIdx.x);
    held[i] = piece < pieces ? x[piece] : make_float4(0, 0, 0, 0);
    if (p.shift != nullptr && piece < pieces) {
      auto const by = __ldg(reinterpret_cast<float4 const*>(p.shift) + piece);
      held[i].x += by.x, held[i].y += by.y, held[i].z += by.z, held[i].w += by.w;
      x[piece] = held[i];
    }
    total += held[i].x + held[i].y + held[i].z + held[i].w;
  }
  float const mean = p.centered ? sum_of_block(total, sums[0]) / static_cast<float>(p.columns) : 0;
  float squares = 0;
#pragma unroll
  for (int i = 0; i < Pieces; ++i) {
    if (i * k_threads + static_cast<int>(threadIdx.x) >= pieces) continue;
    held[i].x -= mean, held[i].y -= mean, held[i].z -= mean, held[i].w -= mean;
    squares += held[i].x * held[i].x + held[i].y * held[i].y + held[i].z * held[i].z + held[i].w * held[i].w;
  }
  float const scale = rsqrtf(sum_of_block(squares, sums[1]) / static_cast<float>(p.columns) + p.epsilon);
  auto* const y = static_cast<uint2*>(p.y) + static_cast<long long>(blockIdx.x) * pieces;
#pragma unroll
  for (int i = 0; i < Pieces; ++i) {
    int const piece = i * k_threads + static_cast<int>(threadIdx.x);
    if (piece >= pieces) continue;
    auto const gains = p.gains != nullptr ? four_of(p.gains, piece) : make_float4(1, 1, 1, 1);
    auto const biases = p.biases != nullptr ? four_of(p.biases, piece) : make_float4(0, 0, 0, 0);
    auto const low =
        __floats2bfloat162_rn(held[i].x * scale * gains.x + biases.x, held[i].y * scale * gains.y + biases.y);
    auto const high =
        __floats2bfloat162_rn(held[i].z * scale * gains.z + biases.z, held[i].w * scale * gains.w + biases.w);
    y[piece] =
        make_uint2(*reinterpret_cast<unsigned const*>(&low), *reinterpret_cast<unsigned const*>(&high));
  }
}

using Kernel = void (*)(Norm, bool);

Kernel kernel_of(int columns) {
  int const pieces = (columns / 4 + k_threads - 1) / k_threads;
  return pieces <= 1   ? norm_rows<1>
         : pieces <= 2 ? norm_rows<2>
         : pieces <= 4 ? norm_rows<4>
         : pieces <= 8 ? norm_rows<8>
                       : norm_rows<16>;
}

}  // namespace

void const* norm_kernel(int columns) { return reinterpret_cast<void const*>(kernel_of(columns)); }

cudaError_t norm(Norm const& p, cudaStream_t stream, Start const& start, bool triggers_late) {
  if (p.rows < 1 || p.columns < 4 || p.columns % 4 != 0 || p.columns > k_most_norm_columns)
    return cudaErrorInvalidValue;
  gpu::Shape shape{static_cast<unsigned>(p.rows), k_threads};
  shape.programmatic = start.programmatic;
  shape.shared_percent = start.shared_percent;
  return gpu::try_launch(shape, stream, kernel_of(p.columns), p, triggers_late);
}

}  // namespace tessera::kernels
