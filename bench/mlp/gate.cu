// SPDX-License-Identifier: Apache-2.0
// The pass that a library without a gated epilogue needs: h = silu(gate) * up over interleaved columns.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <tessera/sync.cuh>

#include "bench/mlp/peers.hpp"

namespace tessera::bench {
namespace {

__device__ float2 to_floats(__nv_bfloat162 two) { return __bfloat1622float2(two); }
__device__ float2 to_floats(__half2 two) { return __half22float2(two); }
__device__ void assign(__nv_bfloat162& to, float x, float y) { to = __floats2bfloat162_rn(x, y); }
__device__ void assign(__half2& to, float x, float y) { to = __floats2half2_rn(x, y); }

/// Each thread turns two 16-byte words into one.
template <class Two>
__global__ void __launch_bounds__(256) gate_all(uint4 const* sums, uint4* to, unsigned count) {
  pdl_wait();
  unsigned const i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  uint4 const from[2] = {sums[2 * i], sums[2 * i + 1]};
  auto const* pairs = reinterpret_cast<Two const*>(from);
  uint4 result;
  auto* out = reinterpret_cast<Two*>(&result);
  auto one = [&](int j) {
    float2 const pair = to_floats(pairs[j]);
    return __fdividef(pair.x, 1 + __expf(-pair.x)) * pair.y;
  };
  for (int j = 0; j < 4; ++j) assign(out[j], one(2 * j), one(2 * j + 1));
  to[i] = result;
}

}  // namespace

cudaError_t gate(mlp::ElementType type, void const* sums, void* to, long long count, cudaStream_t stream) {
  auto const words = static_cast<unsigned>(count / 8);
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = (words + 255) / 256;
  config.blockDim = 256;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  auto const* from = static_cast<uint4 const*>(sums);
  return type == mlp::ElementType::fp16
             ? cudaLaunchKernelEx(&config, gate_all<__half2>, from, static_cast<uint4*>(to), words)
             : cudaLaunchKernelEx(&config, gate_all<__nv_bfloat162>, from, static_cast<uint4*>(to), words);
}

}  // namespace tessera::bench
