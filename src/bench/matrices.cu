// SPDX-License-Identifier: Apache-2.0
#include "matrices.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "gpu/device_buffer.hpp"
#include "gpu/event_timer.hpp"

namespace tessera::bench {
namespace {

constexpr int threads = 256;

unsigned grid(std::size_t count) {
  std::size_t const blocks = (count + threads - 1) / threads;
  return static_cast<unsigned>(std::clamp<std::size_t>(blocks, 1, 8192));
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
__global__ void activation_kernel(float const* sums, ReferenceActivation activation, std::size_t count,
                                  float* h, T* narrowed) {
  bool const rounds = activation == ReferenceActivation::rounded_swiglu;
  for (std::size_t i = blockIdx.x * std::size_t(threads) + threadIdx.x; i < count;
       i += std::size_t(gridDim.x) * threads) {
    float result;
    if (activation == ReferenceActivation::none) {
      result = sums[i];
    } else if (activation == ReferenceActivation::gelu) {
      float const v = sums[i];
      result = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
    } else {
      float const gate = rounds ? rounded<T>(sums[2 * i]) : sums[2 * i];
      float const up = rounds ? rounded<T>(sums[2 * i + 1]) : sums[2 * i + 1];
      result = gate / (1.0f + expf(-gate)) * up;
    }
    if (h != nullptr) h[i] = result;
    if (narrowed != nullptr) narrow(result, narrowed[i]);
  }
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

__global__ void differing_kernel(unsigned short const* one, unsigned short const* other, std::size_t count,
                                 unsigned long long* sum) {
  for (std::size_t i = blockIdx.x * std::size_t(threads) + threadIdx.x; i < count;
       i += std::size_t(gridDim.x) * threads)
    if (one[i] != (other == nullptr ? 0xffff : other[i])) atomicAdd(sum, 1ull);
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

/// Calls the function with null pointers of the type's elements.
template <class Function>
void with_type(ElementType type, Function const& function) {
  if (type == ElementType::bf16)
    function(static_cast<__nv_bfloat16*>(nullptr));
  else
    function(static_cast<__half*>(nullptr));
}

}  // namespace

void fill_random(void* matrix, std::size_t count, ElementType type, unsigned long long seed, float deviation,
                 cudaStream_t stream) {
  with_type(type, [&](auto* to) {
    to = static_cast<decltype(to)>(matrix);
    fill_kernel<<<grid(count), threads, 0, stream>>>(to, count, seed, deviation);
  });
}

// All ones is a NaN in both types.
void poison(void* matrix, std::size_t count, cudaStream_t stream) {
  cudaMemsetAsync(matrix, 0xff, count * 2, stream);
}

void reference_gemm(void const* a, void const* b, float* d, int rows, int columns, int depth,
                    ElementType type, cudaStream_t stream) {
  dim3 const blocks(static_cast<unsigned>((columns + 63) / 64), static_cast<unsigned>((rows + 63) / 64));
  with_type(type, [&](auto const* from) {
    using From = decltype(from);
    gemm_kernel<<<blocks, threads, 0, stream>>>(static_cast<From>(a), static_cast<From>(b), d, rows, columns,
                                                depth);
  });
}

void reference_activation(float const* sums, ReferenceActivation activation, std::size_t count, float* h,
                          void* rounded, ElementType type, cudaStream_t stream) {
  with_type(type, [&](auto* to) {
    to = static_cast<decltype(to)>(rounded);
    activation_kernel<<<grid(count), threads, 0, stream>>>(sums, activation, count, h, to);
  });
}

double relative_error(void const* got, float const* reference, std::size_t count, ElementType type,
                      cudaStream_t stream) {
  double* sums = nullptr;
  double result[2] = {NAN, 1};
  if (cudaMallocAsync(reinterpret_cast<void**>(&sums), sizeof result, stream) != cudaSuccess) return NAN;
  cudaMemsetAsync(sums, 0, sizeof result, stream);
  with_type(type, [&](auto const* from) {
    from = static_cast<decltype(from)>(got);
    error_kernel<<<grid(count), threads, 0, stream>>>(from, reference, count, sums);
  });
  cudaMemcpyAsync(result, sums, sizeof result, cudaMemcpyDeviceToHost, stream);
  cudaFreeAsync(sums, stream);
  if (cudaStreamSynchronize(stream) != cudaSuccess) return NAN;
  return std::sqrt(result[0] / result[1]);
}

unsigned long long differing(void const* one, void const* other, std::size_t count, cudaStream_t stream) {
  unsigned long long* sum = nullptr;
  unsigned long long result = count;
  if (cudaMallocAsync(reinterpret_cast<void**>(&sum), sizeof result, stream) != cudaSuccess) return count;
  cudaMemsetAsync(sum, 0, sizeof result, stream);
  differing_kernel<<<grid(count), threads, 0, stream>>>(
      static_cast<unsigned short const*>(one), static_cast<unsigned short const*>(other), count, sum);
  cudaMemcpyAsync(&result, sum, sizeof result, cudaMemcpyDeviceToHost, stream);
  cudaFreeAsync(sum, stream);
  return cudaStreamSynchronize(stream) == cudaSuccess ? result : count;
}

unsigned long long not_poisoned(void const* matrix, std::size_t count, cudaStream_t stream) {
  return differing(matrix, nullptr, count, stream);
}

double read_bandwidth(cudaStream_t stream) {
  // Enough that the kernel's start and end do not count.
  constexpr std::size_t bytes = 2ull << 30;
  double best = 0;
  try {
    gpu::DeviceBuffer<char> const memory(bytes), sink(sizeof(unsigned));
    gpu::EventTimer timer;
    fill_random(memory.get(), bytes / 2, ElementType::bf16, 1, 1, stream);
    for (int round = 0; round < 10; ++round) {
      double const ns = timer.ns(stream, [&] {
        read_kernel<<<132 * 8, 256, 0, stream>>>(reinterpret_cast<uint4 const*>(memory.get()), bytes / 16,
                                                 reinterpret_cast<unsigned*>(sink.get()));
      });
      if (ns > 0) best = std::max(best, static_cast<double>(bytes) / ns * 1e9);
    }
  } catch (std::runtime_error const&) {
    return 0;
  }
  return best;
}

}  // namespace tessera::bench
