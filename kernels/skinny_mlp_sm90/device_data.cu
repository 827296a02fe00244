// SPDX-License-Identifier: Apache-2.0
#include "device_data.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <limits>

#include "hopper.cuh"

namespace tessera::skinny_sm90 {
namespace {

constexpr int grid = 1056;
constexpr int threads = 256;

__device__ unsigned mix(unsigned long long x) {
  x ^= x >> 33;
  x *= 0xFF51AFD7ED558CCDULL;
  x ^= x >> 33;
  x *= 0xC4CEB9FE1A85EC53ULL;
  return static_cast<unsigned>(x >> 32);
}

template <class Function>
__global__ void for_each(std::size_t count, Function function) {
  std::size_t const step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; i < count; i += step)
    function(i);
}

// One call for either type.
template <class Function>
void with_type(mlp::ElementType type, Function function) {
  if (type == mlp::ElementType::bf16)
    function(__nv_bfloat16{});
  else
    function(__half{});
}

template <class Element>
struct Fill {
  Element* to;
  unsigned long long seed;
  float half_width;
  __device__ void operator()(std::size_t i) const {
    float const unit = static_cast<float>(mix(i + seed * 0x9E3779B97F4A7C15ULL)) * 4.6566129e-10f - 1;
    to[i] = static_cast<Element>(unit * half_width);
  }
};

struct Poison {
  unsigned short* to;
  __device__ void operator()(std::size_t i) const { to[i] = 0x7FFF; }
};

struct Differ {
  unsigned short const* one;
  unsigned short const* other;  // none: against poison
  unsigned long long* count;
  __device__ void operator()(std::size_t i) const {
    if (one[i] != (other == nullptr ? 0x7FFF : other[i])) atomicAdd(count, 1ULL);
  }
};

unsigned long long count_differing(void const* one, void const* other, std::size_t count,
                                   cudaStream_t stream) {
  unsigned long long* sum = nullptr;
  unsigned long long result = count;
  if (cudaMallocAsync(&sum, sizeof result, stream) != cudaSuccess) return result;
  cudaMemsetAsync(sum, 0, sizeof result, stream);
  for_each<<<grid, threads, 0, stream>>>(
      count, Differ{static_cast<unsigned short const*>(one), static_cast<unsigned short const*>(other), sum});
  cudaMemcpyAsync(&result, sum, sizeof result, cudaMemcpyDeviceToHost, stream);
  cudaFreeAsync(sum, stream);
  return cudaStreamSynchronize(stream) == cudaSuccess ? result : count;
}

// d[tokens][rows] = x[tokens][depth] * w[rows][depth]^T. A block makes 64 rows for 32 tokens.
template <class Element>
__global__ void __launch_bounds__(256)
    plain_product(Element const* w, Element const* x, float* d, int rows, int depth, int tokens) {
  constexpr int slice = 32;
  __shared__ float w_slice[slice][64 + 1];
  __shared__ float x_slice[slice][32 + 1];
  int const row = blockIdx.x * 64;
  int const token = blockIdx.y * 32;
  int const r = threadIdx.x % 16;
  int const t = threadIdx.x / 16;
  float sums[4][2] = {};
  for (int k = 0; k < depth; k += slice) {
    auto at = [&](Element const* matrix, int line, int lines, int column) {
      return line < lines && column < depth
                 ? static_cast<float>(matrix[static_cast<std::size_t>(line) * depth + column])
                 : 0.0f;
    };
    for (int i = threadIdx.x; i < 64 * slice; i += 256)
      w_slice[i % slice][i / slice] = at(w, row + i / slice, rows, k + i % slice);
    for (int i = threadIdx.x; i < 32 * slice; i += 256)
      x_slice[i % slice][i / slice] = at(x, token + i / slice, tokens, k + i % slice);
    __syncthreads();
    for (int s = 0; s < slice; ++s)
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 2; ++j) sums[i][j] += w_slice[s][r + 16 * i] * x_slice[s][t + 16 * j];
    __syncthreads();
  }
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 2; ++j)
      if (row + r + 16 * i < rows && token + t + 16 * j < tokens)
        d[static_cast<std::size_t>(token + t + 16 * j) * rows + row + r + 16 * i] = sums[i][j];
}

template <class Element>
struct Activate {
  float const* sums;
  Element* h;
  bool gated;
  __device__ void operator()(std::size_t i) const {
    float const x = sums[gated ? 2 * i : i];
    float const u = 0.7978845608028654f * (x + 0.044715f * x * x * x);
    h[i] = static_cast<Element>(gated ? x / (1 + expf(-x)) * sums[2 * i + 1] : 0.5f * x * (1 + tanhf(u)));
  }
};

template <class Element>
struct Gate {
  Element const* pairs;
  Element* h;
  __device__ void operator()(std::size_t i) const {
    float const x = static_cast<float>(pairs[2 * i]);
    h[i] = static_cast<Element>(x / (1 + __expf(-x)) * static_cast<float>(pairs[2 * i + 1]));
  }
};

template <class Element>
__global__ void sum_errors(Element const* got, float const* reference, std::size_t count, double* sums) {
  double error = 0;
  double size = 0;
  std::size_t const step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; i < count;
       i += step) {
    double const expected = reference[i];
    double const difference = static_cast<float>(got[i]) - expected;
    error += difference * difference;
    size += expected * expected;
  }
  for (int distance = 16; distance > 0; distance /= 2) {
    error += __shfl_xor_sync(~0u, error, distance);
    size += __shfl_xor_sync(~0u, size, distance);
  }
  if (threadIdx.x % 32 == 0) {
    atomicAdd(sums, error);
    atomicAdd(sums + 1, size);
  }
}

constexpr int chunk = 16384;
constexpr int ring = 12;

// One thread of a block keeps `ring` chunks in flight.
__global__ void __launch_bounds__(32, 1) read_chunks(unsigned char const* memory, std::size_t chunks) {
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ __align__(8) unsigned long long barriers[ring];
  if (threadIdx.x != 0) return;
  unsigned const base = shared_address(shared);
  unsigned const barrier = shared_address(barriers);
  for (int i = 0; i < ring; ++i) barrier_init(barrier + 8 * i, 1);
  fence_barrier_init();
  unsigned long long const policy = streaming_policy();
  auto start = [&](std::size_t i, int slot) {
    barrier_expect(barrier + 8 * slot, chunk);
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, "
        "[%3], %4;" ::"r"(base + slot * chunk),
        "l"(memory + i * chunk), "r"(chunk), "r"(barrier + 8 * slot), "l"(policy)
        : "memory");
  };
  std::size_t next = blockIdx.x;
  int pending = 0;
  for (; pending < ring && next < chunks; ++pending, next += gridDim.x) start(next, pending);
  for (int slot = 0, parity = 0; pending > 0;) {
    while (!barrier_try(barrier + 8 * slot, parity))
      ;
    if (next < chunks) {
      start(next, slot);
      next += gridDim.x;
    } else {
      --pending;
    }
    if (++slot == ring) {
      slot = 0;
      parity ^= 1;
    }
  }
}

}  // namespace

void fill_random(mlp::ElementType type, void* to, std::size_t count, unsigned long long seed, float deviation,
                 cudaStream_t stream) {
  with_type(type, [&](auto element) {
    using Element = decltype(element);
    for_each<<<grid, threads, 0, stream>>>(
        count, Fill<Element>{static_cast<Element*>(to), seed, deviation * 1.7320508f});
  });
}

void poison(void* elements, std::size_t count, cudaStream_t stream) {
  for_each<<<grid, threads, 0, stream>>>(count, Poison{static_cast<unsigned short*>(elements)});
}

unsigned long long not_poisoned(void const* elements, std::size_t count, cudaStream_t stream) {
  return count_differing(elements, nullptr, count, stream);
}

unsigned long long differing(void const* one, void const* other, std::size_t count, cudaStream_t stream) {
  return count_differing(one, other, count, stream);
}

void reference_mlp(mlp::Shape const& shape, mlp::Buffers const& buffers, float* sums, float* y,
                   cudaStream_t stream) {
  with_type(shape.type, [&](auto element) {
    using Element = decltype(element);
    auto product = [&](void const* w, void const* x, float* d, int rows, int depth) {
      dim3 const blocks((rows + 63) / 64, (shape.tokens + 31) / 32);
      plain_product<<<blocks, 256, 0, stream>>>(static_cast<Element const*>(w),
                                                static_cast<Element const*>(x), d, rows, depth, shape.tokens);
    };
    bool const gated = shape.form == mlp::Form::swiglu;
    product(buffers.w1, buffers.x, sums, shape.hidden * (gated ? 2 : 1), shape.model);
    for_each<<<grid, threads, 0, stream>>>(static_cast<std::size_t>(shape.tokens) * shape.hidden,
                                           Activate<Element>{sums, static_cast<Element*>(buffers.h), gated});
    product(buffers.w2, buffers.h, y, shape.model, shape.hidden);
  });
}

double relative_error(mlp::ElementType type, void const* got, float const* reference, std::size_t count,
                      cudaStream_t stream) {
  double* sums = nullptr;
  double host[2] = {std::numeric_limits<double>::quiet_NaN(), 1};
  if (cudaMallocAsync(&sums, sizeof host, stream) != cudaSuccess) return host[0];
  cudaMemsetAsync(sums, 0, sizeof host, stream);
  with_type(type, [&](auto element) {
    using Element = decltype(element);
    sum_errors<<<grid, threads, 0, stream>>>(static_cast<Element const*>(got), reference, count, sums);
  });
  cudaMemcpyAsync(host, sums, sizeof host, cudaMemcpyDeviceToHost, stream);
  cudaFreeAsync(sums, stream);
  if (cudaStreamSynchronize(stream) != cudaSuccess) return std::numeric_limits<double>::quiet_NaN();
  return std::sqrt(host[0] / host[1]);
}

void gate(mlp::ElementType type, void const* pairs, void* h, std::size_t count, cudaStream_t stream) {
  with_type(type, [&](auto element) {
    using Element = decltype(element);
    for_each<<<264, threads, 0, stream>>>(
        count, Gate<Element>{static_cast<Element const*>(pairs), static_cast<Element*>(h)});
  });
}

cudaError_t stream_through(void const* memory, std::size_t bytes, int blocks, cudaStream_t stream) {
  auto const e = cudaFuncSetAttribute(read_chunks, cudaFuncAttributeMaxDynamicSharedMemorySize, ring * chunk);
  if (e != cudaSuccess) return e;
  read_chunks<<<blocks, 32, ring * chunk, stream>>>(static_cast<unsigned char const*>(memory), bytes / chunk);
  return cudaGetLastError();
}

}  // namespace tessera::skinny_sm90
