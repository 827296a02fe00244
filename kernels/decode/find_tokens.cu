// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/find_tokens.hpp"

#include <tessera/sync.cuh>

#include "kernels/decode/embed.cuh"
#include "kernels/decode/next_token.cuh"
#include "src/gpu/launch.hpp"

namespace tessera::decode {
namespace {

using Element = __nv_bfloat16;

constexpr int k_threads = 256;
constexpr int k_of_block = 4096;  ///< logits

/// blockIdx.x is a share of a sequence's logits, blockIdx.y the sequence. The block that ends last of a
/// sequence's begins its next step: nobody waits for anybody.
__global__ void __launch_bounds__(k_threads)
    find_most_likely(StepEnd end, float const* shifts, int vocabulary) {
  __shared__ unsigned long long found[k_threads / 32];
  __shared__ int next;
  pdl_trigger();
  pdl_wait();
  int const sequence = static_cast<int>(blockIdx.y);
  auto* const logits = end.logits + static_cast<long long>(sequence) * vocabulary;
  int const first = static_cast<int>(blockIdx.x) * k_of_block + static_cast<int>(threadIdx.x);
  unsigned long long key = 0;
#pragma unroll
  for (int i = 0; i < k_of_block / k_threads; ++i) {
    int const token = first + i * k_threads;
    if (token >= vocabulary) continue;
    float logit = __ldcg(logits + token);
    if (shifts != nullptr) logits[token] = logit += __ldg(shifts + token);
    key = max(key, key_of(__float_as_uint(logit), token));
  }
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) key = max(key, __shfl_xor_sync(~0u, key, lanes));
  if (threadIdx.x % 32 == 0) found[threadIdx.x / 32] = key;
  __syncthreads();
  bool last = false;
  if (threadIdx.x == 0) {
    for (auto const other : found) key = max(key, other);
    atomicMax(end.best + sequence, key);
    if (!end.draws) {
      __threadfence();
      last = atomicInc(end.arrived + sequence, gridDim.x - 1) == gridDim.x - 1;
      __threadfence();
      if (last) next = next_token(end, sequence, token_of(take_best(end, sequence)));
    }
  }
  if (__syncthreads_or(last) == 0) return;
  for (int piece = static_cast<int>(threadIdx.x); piece < end.hidden / 8; piece += k_threads)
    embed_piece<Element>(end, sequence, piece, next, end.cached[sequence]);
}

}  // namespace

cudaError_t find_tokens(StepEnd const& end, float const* shifts, int vocabulary, cudaStream_t stream) {
  gpu::Shape shape{dim3(static_cast<unsigned>((vocabulary + k_of_block - 1) / k_of_block),
                        static_cast<unsigned>(end.sequences)),
                   k_threads};
  shape.programmatic = true;
  return gpu::try_launch(shape, stream, find_most_likely, end, shifts, vocabulary);
}

}  // namespace tessera::decode
