// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <tessera/sync.cuh>

#include "src/gpu/launch.hpp"
#include "swiglu.hpp"

namespace tessera::kernels {
namespace {

constexpr int threads = 256;

// One 16-byte piece of a row a thread.
__global__ void interleave(uint4 const* gate, uint4 const* up, uint4* w1, long long pieces, int row_pieces) {
  long long const i = blockIdx.x * static_cast<long long>(threads) + threadIdx.x;
  if (i >= pieces) return;
  long long const row = i / row_pieces;
  long long const at = i % row_pieces;
  w1[2 * row * row_pieces + at] = gate[i];
  w1[(2 * row + 1) * row_pieces + at] = up[i];
}

struct Bf16 {
  using Pair = __nv_bfloat162;
  static __device__ float2 wide(Pair pair) { return __bfloat1622float2(pair); }
  static __device__ Pair narrow(float a, float b) { return __floats2bfloat162_rn(a, b); }
};
struct Fp16 {
  using Pair = __half2;
  static __device__ float2 wide(Pair pair) { return __half22float2(pair); }
  static __device__ Pair narrow(float a, float b) { return __floats2half2_rn(a, b); }
};

__device__ float gated(float2 gate_and_up) {
  return gate_and_up.x / (1.0f + __expf(-gate_and_up.x)) * gate_and_up.y;
}

// Eight features a thread: 32 bytes in, 16 out.
template <class Type>
__global__ void swiglu_kernel(uint4 const* gate_up, uint4* h, long long pieces) {
  using Pair = typename Type::Pair;
  // The next kernel may load its weights meanwhile; this one has nothing to do before its input is complete.
  pdl_trigger();
  pdl_wait();
  long long const i = blockIdx.x * static_cast<long long>(threads) + threadIdx.x;
  if (i >= pieces) return;
  uint4 const in[2] = {gate_up[2 * i], gate_up[2 * i + 1]};
  auto const* const pairs = reinterpret_cast<Pair const*>(in);
  uint4 out;
  auto* const results = reinterpret_cast<Pair*>(&out);
#pragma unroll
  for (int j = 0; j < 4; ++j)
    results[j] = Type::narrow(gated(Type::wide(pairs[2 * j])), gated(Type::wide(pairs[2 * j + 1])));
  h[i] = out;
}

unsigned blocks_for(long long pieces) { return static_cast<unsigned>((pieces + threads - 1) / threads); }

}  // namespace

cudaError_t interleave_gate_up(void const* gate, void const* up, void* w1, int hidden, int model,
                               cudaStream_t stream) {
  if (hidden <= 0 || model <= 0 || model % 8 != 0) return cudaErrorInvalidValue;
  long long const pieces = static_cast<long long>(hidden) * (model / 8);
  interleave<<<blocks_for(pieces), threads, 0, stream>>>(static_cast<uint4 const*>(gate),
                                                         static_cast<uint4 const*>(up),
                                                         static_cast<uint4*>(w1), pieces, model / 8);
  return cudaGetLastError();
}

cudaError_t swiglu(void const* gate_up, void* h, int tokens, int hidden, gpu::ElementType type,
                   cudaStream_t stream) {
  if (tokens <= 0 || hidden <= 0 || hidden % 8 != 0) return cudaErrorInvalidValue;
  long long const pieces = static_cast<long long>(tokens) * (hidden / 8);
  auto const* const in = static_cast<uint4 const*>(gate_up);
  auto* const out = static_cast<uint4*>(h);
  gpu::Shape early{blocks_for(pieces), threads};
  early.programmatic = true;
  auto* const kernel = type == gpu::ElementType::bf16 ? swiglu_kernel<Bf16> : swiglu_kernel<Fp16>;
  return gpu::try_launch(early, stream, kernel, in, out, pieces);
}

}  // namespace tessera::kernels
