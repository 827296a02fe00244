// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/sample.hpp"

#include <algorithm>

#include "kernels/decode/embed.cuh"
#include "kernels/decode/sample_share.cuh"

namespace tessera::decode {
namespace {

using Element = __nv_bfloat16;

constexpr int k_most_shared_bytes = 200 * 1024;

/// All threads of the cluster; `most`: the largest logit.
__device__ int draw(Share& share, Draws const& d, float most, Amount bits) {
  auto const weight = [&](float logit) { return weight_of(logit, most, d.scale); };
  if (d.top_k > 0 && d.top_k < d.vocabulary) {
    KeySearch search{static_cast<Amount>(d.top_k)};
    share.find(search, [](float) { return Amount{1}; });
    share.keep_from(search.found);
  }
  Amount all = share.total(weight);
  if (d.top_p < 1) {
    KeySearch search{share_of(all, d.top_p)};
    Amount const wanted = search.wanted;
    share.find(search, weight);
    // With all of the last one.
    all = wanted - search.wanted + weight(logit_of(search.found));
  }
  KeySearch search{below(all, bits) + 1};
  share.find(search, weight);
  return token_of(search.found);
}

__global__ void __cluster_dims__(k_sample_blocks, 1, 1) __launch_bounds__(k_sample_threads)
    sample_tokens(StepEnd end, Draws draws, int room) {
  extern __shared__ __align__(16) unsigned char tessera_sample_shared[];
  auto& memory = *reinterpret_cast<SampleMemory*>(tessera_sample_shared);
  __shared__ int next;
  int const sequence = static_cast<int>(blockIdx.x) / k_sample_blocks;
  int const position = end.cached[sequence] + 1;
  auto const best = end.best[sequence];
  bool const draws_one = position >= end.known[sequence] && end.ended[sequence] == 0 && is_finite_key(best);
  Share share(memory, end.logits + static_cast<long long>(sequence) * draws.vocabulary, draws.vocabulary,
              draws_one ? room : 0);
  int found = token_of(best);
  if (draws_one) found = draw(share, draws, logit_of(best), random_bits(draws.seed, sequence, position));
  // All have read what is written now, and what other blocks have told or listed.
  share.sync();
  if (!share.is_first()) return;
  if (threadIdx.x == 0) {
    take_best(end, sequence);
    next = next_token(end, sequence, found);
  }
  __syncthreads();
  for (int piece = static_cast<int>(threadIdx.x); piece < end.hidden / 8; piece += k_sample_threads)
    embed_piece<Element>(end, sequence, piece, next, end.cached[sequence]);
}

}  // namespace

Draws draws_of(Sampling const& sampling, int vocabulary) {
  return {logit_scale(sampling), sampling.top_k, sampling.top_p, sampling.seed, vocabulary};
}

cudaError_t load_sample() {
  return cudaFuncSetAttribute(sample_tokens, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              k_most_shared_bytes);
}

cudaError_t sample(StepEnd const& end, Draws const& draws, cudaStream_t stream) {
  constexpr int memory = static_cast<int>(sizeof(SampleMemory)), each = static_cast<int>(sizeof(float));
  int const share = (draws.vocabulary + k_sample_blocks - 1) / k_sample_blocks;
  int const room = std::min(share, (k_most_shared_bytes - memory) / each);
  sample_tokens<<<static_cast<unsigned>(k_sample_blocks * end.sequences), k_sample_threads,
                  static_cast<std::size_t>(memory + each * room), stream>>>(end, draws, room);
  return cudaGetLastError();
}

}  // namespace tessera::decode
