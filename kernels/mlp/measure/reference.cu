// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>

#include "reference.hpp"

namespace tessera::mlp {
namespace {

constexpr int threads = 256;

unsigned grid(std::size_t count) {
  std::size_t const blocks = (count + threads - 1) / threads;
  return static_cast<unsigned>(blocks < 8192 ? blocks : 8192);
}

__device__ float wide(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ float wide(__half value) { return __half2float(value); }
__device__ void narrow(float value, __nv_bfloat16& to) { to = __float2bfloat16(value); }
__device__ void narrow(float value, __half& to) { to = __float2half(value); }

__device__ unsigned long long mix(unsigned long long z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

template <class T>
__global__ void fill_kernel(T* to, std::size_t count, unsigned long long seed, float deviation) {
  for (std::size_t i = blockIdx.x * std::size_t(threads) + threadIdx.x; i < count;
       i += std::size_t(gridDim.x) * threads) {
    unsigned long long const bits = mix(seed * 0x9e3779b97f4a7c15ull + i);
    float const u = (float(unsigned(bits >> 40)) + 0.5f) / 16777216.0f;
    float const v = float(unsigned(bits & 0xffffff)) / 16777216.0f;
    narrow(deviation * sqrtf(-2.0f * __logf(u)) * __cosf(6.2831853f * v), to[i]);
  }
}

// 64 x 64 outputs a block, 4 x 4 a thread.
template <class T>
__global__ void gemm_kernel(T const* a, T const* b, float* d, int rows, int columns, int depth) {
  constexpr int tile = 64, slice = 16;
  __shared__ float as[slice][tile + 4], bs[slice][tile + 4];
  int const row0 = static_cast<int>(blockIdx.y) * tile, column0 = static_cast<int>(blockIdx.x) * tile;
  int const tx = static_cast<int>(threadIdx.x) % 16, ty = static_cast<int>(threadIdx.x) / 16;
  float sum[4][4] = {};
  for (int k0 = 0; k0 < depth; k0 += slice) {
    for (int i = static_cast<int>(threadIdx.x); i < tile * slice; i += threads) {
      int const r = i / slice, k = i % slice;
      bool const in = k0 + k < depth;
      as[k][r] = in && row0 + r < rows ? wide(a[std::size_t(row0 + r) * depth + k0 + k]) : 0.0f;
      bs[k][r] = in && column0 + r < columns ? wide(b[std::size_t(column0 + r) * depth + k0 + k]) : 0.0f;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < slice; ++k)
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[i][j] += as[k][ty * 4 + i] * bs[k][tx * 4 + j];
    __syncthreads();
  }
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j)
      if (row0 + ty * 4 + i < rows && column0 + tx * 4 + j < columns)
        d[std::size_t(row0 + ty * 4 + i) * columns + column0 + tx * 4 + j] = sum[i][j];
}

template <class T>
__device__ float rounded(float value) {
  T narrowed;
  narrow(value, narrowed);
  return wide(narrowed);
}

template <class T>
__global__ void activation_kernel(float const* in, float* h, std::size_t count, bool gated, bool rounds) {
  for (std::size_t i = blockIdx.x * std::size_t(threads) + threadIdx.x; i < count;
       i += std::size_t(gridDim.x) * threads) {
    if (gated) {
      float const gate = rounds ? rounded<T>(in[2 * i]) : in[2 * i];
      float const up = rounds ? rounded<T>(in[2 * i + 1]) : in[2 * i + 1];
      h[i] = gate / (1.0f + expf(-gate)) * up;
    } else {
      float const v = in[i];
      h[i] = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
    }
  }
}

template <class T>
__global__ void round_kernel(float const* from, T* to, std::size_t count) {
  for (std::size_t i = blockIdx.x * std::size_t(threads) + threadIdx.x; i < count;
       i += std::size_t(gridDim.x) * threads)
    narrow(from[i], to[i]);
}

template <class T>
__global__ void error_kernel(T const* got, float const* reference, std::size_t count, double* sums) {
  double difference = 0, norm = 0;
  for (std::size_t i = blockIdx.x * std::size_t(threads) + threadIdx.x; i < count;
       i += std::size_t(gridDim.x) * threads) {
    double const want = reference[i];
    double const off = double(wide(got[i])) - want;
    difference += off * off;
    norm += want * want;
  }
  for (int lane = 16; lane > 0; lane /= 2) {
    difference += __shfl_down_sync(~0u, difference, lane);
    norm += __shfl_down_sync(~0u, norm, lane);
  }
  if (threadIdx.x % 32 == 0) {
    atomicAdd(&sums[0], difference);
    atomicAdd(&sums[1], norm);
  }
}

__global__ void read_kernel(uint4 const* from, std::size_t pieces, unsigned* sink) {
  unsigned sum = 0;
  std::size_t const step = std::size_t(gridDim.x) * blockDim.x;
  std::size_t i = blockIdx.x * std::size_t(blockDim.x) + threadIdx.x;
  for (; i + 3 * step < pieces; i += 4 * step) {
    uint4 const a = from[i], b = from[i + step], c = from[i + 2 * step], d = from[i + 3 * step];
    sum ^= a.x ^ a.y ^ a.z ^ a.w ^ b.x ^ b.y ^ b.z ^ b.w ^ c.x ^ c.y ^ c.z ^ c.w ^ d.x ^ d.y ^ d.z ^ d.w;
  }
  for (; i < pieces; i += step) sum ^= from[i].x ^ from[i].y ^ from[i].z ^ from[i].w;
  if (sum == 0x12345678u) *sink = sum;
}

using Bf16 = __nv_bfloat16;
using Fp16 = __half;

}  // namespace

void fill_random(void* matrix, std::size_t count, ElementType type, unsigned long long seed, float deviation,
                 cudaStream_t stream) {
  if (type == ElementType::bf16)
    fill_kernel<<<grid(count), threads, 0, stream>>>(static_cast<Bf16*>(matrix), count, seed, deviation);
  else
    fill_kernel<<<grid(count), threads, 0, stream>>>(static_cast<Fp16*>(matrix), count, seed, deviation);
}

// All ones is a NaN in both types.
void poison(void* matrix, std::size_t count, cudaStream_t stream) {
  cudaMemsetAsync(matrix, 0xff, count * 2, stream);
}

void reference_gemm(void const* a, void const* b, float* d, int rows, int columns, int depth,
                    ElementType type, cudaStream_t stream) {
  dim3 const blocks(static_cast<unsigned>((columns + 63) / 64), static_cast<unsigned>((rows + 63) / 64));
  if (type == ElementType::bf16)
    gemm_kernel<<<blocks, threads, 0, stream>>>(static_cast<Bf16 const*>(a), static_cast<Bf16 const*>(b), d,
                                                rows, columns, depth);
  else
    gemm_kernel<<<blocks, threads, 0, stream>>>(static_cast<Fp16 const*>(a), static_cast<Fp16 const*>(b), d,
                                                rows, columns, depth);
}

void reference_activation(float const* in, float* h, int tokens, int hidden, Form form, ElementType type,
                          bool rounds, cudaStream_t stream) {
  std::size_t const count = std::size_t(tokens) * hidden;
  bool const gated = form == Form::swiglu;
  if (type == ElementType::bf16)
    activation_kernel<Bf16><<<grid(count), threads, 0, stream>>>(in, h, count, gated, rounds);
  else
    activation_kernel<Fp16><<<grid(count), threads, 0, stream>>>(in, h, count, gated, rounds);
}

void round_to(float const* from, void* matrix, std::size_t count, ElementType type, cudaStream_t stream) {
  if (type == ElementType::bf16)
    round_kernel<<<grid(count), threads, 0, stream>>>(from, static_cast<Bf16*>(matrix), count);
  else
    round_kernel<<<grid(count), threads, 0, stream>>>(from, static_cast<Fp16*>(matrix), count);
}

double relative_error(void const* got, float const* reference, std::size_t count, ElementType type,
                      cudaStream_t stream) {
  double* sums = nullptr;
  double result[2] = {NAN, 1};
  if (cudaMallocAsync(reinterpret_cast<void**>(&sums), sizeof result, stream) != cudaSuccess) return NAN;
  cudaMemsetAsync(sums, 0, sizeof result, stream);
  if (type == ElementType::bf16)
    error_kernel<<<grid(count), threads, 0, stream>>>(static_cast<Bf16 const*>(got), reference, count, sums);
  else
    error_kernel<<<grid(count), threads, 0, stream>>>(static_cast<Fp16 const*>(got), reference, count, sums);
  cudaMemcpyAsync(result, sums, sizeof result, cudaMemcpyDeviceToHost, stream);
  cudaFreeAsync(sums, stream);
  if (cudaStreamSynchronize(stream) != cudaSuccess) return NAN;
  return std::sqrt(result[0] / result[1]);
}

void read_all(void const* memory, std::size_t bytes, unsigned* sink, cudaStream_t stream) {
  read_kernel<<<132 * 8, 256, 0, stream>>>(static_cast<uint4 const*>(memory), bytes / 16, sink);
}

}  // namespace tessera::mlp
