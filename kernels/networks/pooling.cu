// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/networks/pooling.hpp"

namespace tessera::networks {
namespace {

constexpr int k_threads = 128;
constexpr int k_group = k_channel_group;

/// Channels that are loaded and stored at a time.
union Group {
  uint4 whole;
  unsigned short bits[k_group];
};
static_assert(sizeof(Group) == 2 * k_group, "a group is one load of 16 bytes");

__device__ float wide(unsigned short bits, __half) { return __half2float(__ushort_as_half(bits)); }
__device__ float wide(unsigned short bits, __nv_bfloat16) {
  return __bfloat162float(__ushort_as_bfloat16(bits));
}
__device__ unsigned short narrow(float value, __half) { return __half_as_ushort(__float2half_rn(value)); }
__device__ unsigned short narrow(float value, __nv_bfloat16) {
  return __bfloat16_as_ushort(__float2bfloat16_rn(value));
}

struct MaxPool {
  int height, width, out_height, out_width, groups;
  int kernel, stride, padding;
  long long threads;
};

/// A thread: a group of channels of a pixel of the result.
template <class Element>
__global__ void max_pool_kernel(uint4 const* input, uint4* output, MaxPool p) {
  long long const at = 1LL * blockIdx.x * k_threads + threadIdx.x;
  if (at >= p.threads) return;
  int const group = static_cast<int>(at % p.groups);
  long long pixel = at / p.groups;
  int const x = static_cast<int>(pixel % p.out_width);
  pixel /= p.out_width;
  int const y = static_cast<int>(pixel % p.out_height);
  long long const image = pixel / p.out_height;
  float best[k_group];
  for (float& one : best) one = -INFINITY;
  for (int r = 0; r < p.kernel; ++r)
    for (int s = 0; s < p.kernel; ++s) {
      int const row = y * p.stride - p.padding + r, column = x * p.stride - p.padding + s;
      if (row < 0 || row >= p.height || column < 0 || column >= p.width) continue;
      Group found;
      found.whole = input[((image * p.height + row) * p.width + column) * p.groups + group];
      for (int c = 0; c < k_group; ++c) {
        float const value = wide(found.bits[c], Element());
        if (value > best[c] || value != value) best[c] = value;
      }
    }
  Group result;
  for (int c = 0; c < k_group; ++c) result.bits[c] = narrow(best[c], Element());
  output[at] = result.whole;
}

constexpr int k_average_groups = 16, k_average_shares = k_threads / k_average_groups;

/// Threads that share a group of channels of an image: each adds up some of the pixels.
template <class Element>
__global__ void average_pool_kernel(uint4 const* input, uint4* output, int pixels, int groups, int results) {
  __shared__ float sums[k_average_shares][k_average_groups][k_group];
  int const lane = static_cast<int>(threadIdx.x) % k_average_groups;
  int const share = static_cast<int>(threadIdx.x) / k_average_groups;
  int const at = static_cast<int>(blockIdx.x) * k_average_groups + lane;
  float own[k_group] = {};
  if (at < results) {
    long long const first = 1LL * (at / groups) * pixels * groups + at % groups;
    for (int pixel = share; pixel < pixels; pixel += k_average_shares) {
      Group found;
      found.whole = input[first + 1LL * pixel * groups];
      for (int c = 0; c < k_group; ++c) own[c] += wide(found.bits[c], Element());
    }
  }
  for (int c = 0; c < k_group; ++c) sums[share][lane][c] = own[c];
  __syncthreads();
  if (share != 0 || at >= results) return;
  Group result;
  for (int c = 0; c < k_group; ++c) {
    float sum = 0;
    for (auto const& part : sums) sum += part[lane][c];
    result.bits[c] = narrow(sum / static_cast<float>(pixels), Element());
  }
  output[at] = result.whole;
}

/// A thread: a group of channels of a pixel.
__global__ void pad_kernel(unsigned short const* input, uint4* output, int channels, int groups,
                           long long threads) {
  long long const at = 1LL * blockIdx.x * k_threads + threadIdx.x;
  if (at >= threads) return;
  int const first = static_cast<int>(at % groups) * k_group;
  long long const pixel = at / groups;
  Group result;
  for (int c = 0; c < k_group; ++c)
    result.bits[c] = first + c < channels ? input[pixel * channels + first + c] : 0;
  output[at] = result.whole;
}

unsigned blocks_of(long long threads) { return static_cast<unsigned>((threads + k_threads - 1) / k_threads); }

}  // namespace

cudaError_t max_pool(void const* input, void* output, int images, ImageSize const& from,
                     NetworkLayer const& layer, ElementType type, cudaStream_t stream) {
  auto const to = output_size(from, layer);
  auto const& l = layer.layer;
  MaxPool const p{from.height,
                  from.width,
                  to.height,
                  to.width,
                  from.channels / k_group,
                  l.kernel,
                  l.stride,
                  l.padding,
                  images * to.elements() / k_group};
  auto* const kernel = type == ElementType::fp16 ? &max_pool_kernel<__half> : &max_pool_kernel<__nv_bfloat16>;
  kernel<<<blocks_of(p.threads), k_threads, 0, stream>>>(static_cast<uint4 const*>(input),
                                                         static_cast<uint4*>(output), p);
  return cudaGetLastError();
}

cudaError_t average_pool(void const* input, void* output, int images, ImageSize const& from, ElementType type,
                         cudaStream_t stream) {
  int const groups = from.channels / k_group, results = images * groups;
  auto* const kernel =
      type == ElementType::fp16 ? &average_pool_kernel<__half> : &average_pool_kernel<__nv_bfloat16>;
  auto const blocks = static_cast<unsigned>((results + k_average_groups - 1) / k_average_groups);
  kernel<<<blocks, k_threads, 0, stream>>>(static_cast<uint4 const*>(input), static_cast<uint4*>(output),
                                           from.height * from.width, groups, results);
  return cudaGetLastError();
}

cudaError_t pad_channels(void const* input, void* output, int images, ImageSize const& image,
                         cudaStream_t stream) {
  int const groups = padded(image.channels) / k_group;
  long long const threads = 1LL * images * image.height * image.width * groups;
  pad_kernel<<<blocks_of(threads), k_threads, 0, stream>>>(static_cast<unsigned short const*>(input),
                                                           static_cast<uint4*>(output), image.channels,
                                                           groups, threads);
  return cudaGetLastError();
}

}  // namespace tessera::networks
