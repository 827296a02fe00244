// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <limits>
#include <type_traits>

#include "device_data.hpp"

namespace tessera::gemm_sm90 {
namespace {

constexpr int blocks = 1024;
constexpr int threads = 256;

// splitmix64's finalizer.
__device__ unsigned hash(unsigned long long x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return static_cast<unsigned>((x ^ (x >> 31)) >> 32);
}

template <class Function>
__global__ void for_each(std::size_t count, Function function) {
  std::size_t const stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; i < count;
       i += stride)
    function(i);
}

__device__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ float to_float(__half value) { return __half2float(value); }
__device__ void assign(__nv_bfloat16& to, float value) { to = __float2bfloat16(value); }
__device__ void assign(__half& to, float value) { to = __float2half(value); }

// Calls the function with a null pointer of the type's elements.
template <class Function>
auto with_type(ElementType type, Function const& function) {
  return type == ElementType::fp16 ? function(static_cast<__half*>(nullptr))
                                   : function(static_cast<__nv_bfloat16*>(nullptr));
}

template <class Element>
struct Random {
  Element* to;
  unsigned long long seed;
  float deviation;
  // Box and Muller.
  __device__ void operator()(std::size_t i) const {
    unsigned long long const key = seed * 0x100000001B3ULL + 2 * i;
    float const u = (static_cast<float>(hash(key)) + 1.0f) * 2.3283063e-10f;
    float const v = static_cast<float>(hash(key + 1)) * 2.3283063e-10f;
    assign(to[i], sqrtf(-2 * logf(fminf(u, 1.0f))) * cospif(2 * v) * deviation);
  }
};

struct Poison {
  unsigned short* to;
  __device__ void operator()(std::size_t i) const { to[i] = 0x7FFF; }
};

template <class Element>
struct Round {
  float const* from;
  Element* to;
  __device__ void operator()(std::size_t i) const { assign(to[i], from[i]); }
};

struct Gate {
  float const* sums;
  float* to;
  __device__ void operator()(std::size_t i) const {
    to[i] = sums[2 * i] / (1 + expf(-sums[2 * i])) * sums[2 * i + 1];
  }
};

template <class Element>
struct SquaredError {
  Element const* got;
  float const* reference;
  double* sums;  // error, reference
};

template <class Element>
__global__ void sum_errors(SquaredError<Element> input, std::size_t count) {
  double error = 0;
  double size = 0;
  std::size_t const stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; i < count;
       i += stride) {
    double const reference = input.reference[i];
    double const difference = to_float(input.got[i]) - reference;
    error += difference * difference;
    size += reference * reference;
  }
  for (int step = 16; step > 0; step /= 2) {
    error += __shfl_xor_sync(~0u, error, step);
    size += __shfl_xor_sync(~0u, size, step);
  }
  if (threadIdx.x % 32 == 0) {
    atomicAdd(input.sums, error);
    atomicAdd(input.sums + 1, size);
  }
}

struct Differing {
  unsigned short const* one;
  unsigned short const* other;
  unsigned long long* count;
  __device__ void operator()(std::size_t i) const {
    if (one[i] != other[i]) atomicAdd(count, 1ULL);
  }
};

constexpr int edge = 64;   // of a block's tile
constexpr int slice = 16;  // of the depth
constexpr int each = 4;    // a thread's tile is each x each

template <class Element>
__global__ void __launch_bounds__(256)
    plain_gemm(Element const* a, Element const* b, float* d, int rows, int columns, int depth, bool gelu) {
  __shared__ float a_slice[slice][edge + 1];
  __shared__ float b_slice[slice][edge + 1];
  int const row = blockIdx.y * edge;
  int const column = blockIdx.x * edge;
  int const y = threadIdx.x / 16;
  int const x = threadIdx.x % 16;
  float sum[each][each] = {};
  for (int k = 0; k < depth; k += slice) {
    for (int i = threadIdx.x; i < edge * slice; i += 256) {
      int const r = i / slice;
      int const c = i % slice;
      bool const inside = k + c < depth;
      a_slice[c][r] =
          inside && row + r < rows ? to_float(a[static_cast<std::size_t>(row + r) * depth + k + c]) : 0.0f;
      b_slice[c][r] = inside && column + r < columns
                          ? to_float(b[static_cast<std::size_t>(column + r) * depth + k + c])
                          : 0.0f;
    }
    __syncthreads();
    for (int s = 0; s < slice; ++s)
      for (int i = 0; i < each; ++i)
        for (int j = 0; j < each; ++j) sum[i][j] += a_slice[s][y + 16 * i] * b_slice[s][x + 16 * j];
    __syncthreads();
  }
  for (int i = 0; i < each; ++i)
    for (int j = 0; j < each; ++j) {
      int const r = row + y + 16 * i;
      int const c = column + x + 16 * j;
      if (r >= rows || c >= columns) continue;
      float value = sum[i][j];
      if (gelu)
        value = 0.5f * value * (1 + tanhf(0.7978845608f * (value + 0.044715f * value * value * value)));
      d[static_cast<std::size_t>(r) * columns + c] = value;
    }
}

}  // namespace

void fill_random(void* to, std::size_t count, unsigned long long seed, float deviation, cudaStream_t stream,
                 ElementType type) {
  with_type(type, [&](auto* element) {
    using Element = std::remove_pointer_t<decltype(element)>;
    for_each<<<blocks, threads, 0, stream>>>(count,
                                             Random<Element>{static_cast<Element*>(to), seed, deviation});
  });
}

void poison(void* to, std::size_t count, cudaStream_t stream) {
  for_each<<<blocks, threads, 0, stream>>>(count, Poison{static_cast<unsigned short*>(to)});
}

void reference_gemm(void const* a, void const* b, float* d, int rows, int columns, int depth, bool gelu,
                    cudaStream_t stream, ElementType type) {
  dim3 const grid((columns + edge - 1) / edge, (rows + edge - 1) / edge);
  with_type(type, [&](auto* element) {
    using Element = std::remove_pointer_t<decltype(element)>;
    plain_gemm<<<grid, 256, 0, stream>>>(static_cast<Element const*>(a), static_cast<Element const*>(b), d,
                                         rows, columns, depth, gelu);
  });
}

void reference_gate(float const* sums, float* to, std::size_t count, cudaStream_t stream) {
  for_each<<<blocks, threads, 0, stream>>>(count, Gate{sums, to});
}

void round_to(ElementType type, float const* from, void* to, std::size_t count, cudaStream_t stream) {
  with_type(type, [&](auto* element) {
    using Element = std::remove_pointer_t<decltype(element)>;
    for_each<<<blocks, threads, 0, stream>>>(count, Round<Element>{from, static_cast<Element*>(to)});
  });
}

double relative_error(void const* got, float const* reference, std::size_t count, cudaStream_t stream,
                      ElementType type) {
  double* sums = nullptr;
  double host[2] = {std::numeric_limits<double>::quiet_NaN(), 1};
  if (cudaMallocAsync(&sums, sizeof host, stream) != cudaSuccess) return host[0];
  cudaMemsetAsync(sums, 0, sizeof host, stream);
  with_type(type, [&](auto* element) {
    using Element = std::remove_pointer_t<decltype(element)>;
    SquaredError<Element> const input{static_cast<Element const*>(got), reference, sums};
    sum_errors<<<blocks, threads, 0, stream>>>(input, count);
  });
  cudaMemcpyAsync(host, sums, sizeof host, cudaMemcpyDeviceToHost, stream);
  cudaFreeAsync(sums, stream);
  if (cudaStreamSynchronize(stream) != cudaSuccess) return std::numeric_limits<double>::quiet_NaN();
  return std::sqrt(host[0] / host[1]);
}

unsigned long long differing(void const* bf16, void const* other, std::size_t count, cudaStream_t stream) {
  unsigned long long* sum = nullptr;
  unsigned long long host = count;
  if (cudaMallocAsync(&sum, sizeof host, stream) != cudaSuccess) return host;
  cudaMemsetAsync(sum, 0, sizeof host, stream);
  for_each<<<blocks, threads, 0, stream>>>(count, Differing{static_cast<unsigned short const*>(bf16),
                                                            static_cast<unsigned short const*>(other), sum});
  cudaMemcpyAsync(&host, sum, sizeof host, cudaMemcpyDeviceToHost, stream);
  cudaFreeAsync(sum, stream);
  return cudaStreamSynchronize(stream) == cudaSuccess ? host : count;
}

}  // namespace tessera::gemm_sm90
