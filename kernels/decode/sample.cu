// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/sample.hpp"

#include <cooperative_groups.h>

#include "kernels/decode/embed.cuh"
#include "kernels/decode/next_token.cuh"

namespace tessera::decode {
namespace {

using Element = __nv_bfloat16;

constexpr int k_blocks = 8;  ///< of a cluster, one for each sequence
constexpr int k_threads = 512;
constexpr int k_columns = 16;  ///< sums of a digit apart from each other: most logits begin with few digits

/// A block's share of the vocabulary, and what the cluster's blocks tell each other.
class Share {
 public:
  struct Memory {
    Amount columns[k_digit_values][k_columns];
    /// Of the block; in turns, so that blocks may read the one while the next is written.
    Amount told[2][k_digit_values];
    Amount all[k_digit_values];
    Amount warps[k_threads / 32];
    Amount before;
    int digit;
  };

  __device__ Share(Memory& memory, float const* logits, int vocabulary)
      : memory_(memory), cluster_(cooperative_groups::this_cluster()), logits_(logits) {
    auto const rank = static_cast<long long>(cluster_.block_rank());
    begin_ = static_cast<int>(rank * vocabulary / k_blocks);
    end_ = static_cast<int>((rank + 1) * vocabulary / k_blocks);
  }

  __device__ void sync() { cluster_.sync(); }
  __device__ bool is_first() const { return cluster_.block_rank() == 0; }

  /// The sum of `amount(key, logit)` over all tokens. All threads of all blocks.
  template <class AmountOf>
  __device__ Amount total(AmountOf const& amount) {
    Amount sum = 0;
    for_each_token([&](unsigned long long key, float logit) { sum += amount(key, logit); });
    for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(~0u, sum, lanes);
    if (threadIdx.x % 32 == 0) memory_.warps[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
      Amount of_block = 0;
      for (Amount const one : memory_.warps) of_block += one;
      memory_.told[turn_][0] = of_block;
    }
    sync();
    Amount const result = told_by_all(0);
    turn_ ^= 1;
    return result;
  }

  /// Goes through all digits. All threads of all blocks; so is the result. Precondition: all amounts come to
  /// search.wanted at least.
  template <class AmountOf>
  __device__ void find(KeySearch& search, AmountOf const& amount) {
    while (!search.is_over()) {
      add_up(search, amount);
      sync();
      if (threadIdx.x < k_digit_values) memory_.all[threadIdx.x] = told_by_all(static_cast<int>(threadIdx.x));
      turn_ ^= 1;
      __syncthreads();
      if (threadIdx.x < 32) choose_digit(search.wanted);
      __syncthreads();
      search.take(memory_.digit, memory_.before);
    }
  }

 private:
  template <class Body>
  __device__ void for_each_token(Body const& body) const {
    for (int token = begin_ + static_cast<int>(threadIdx.x); token < end_; token += k_threads) {
      float const logit = logits_[token];
      body(key_of(__float_as_uint(logit), token), logit);
    }
  }

  /// Of each digit the sum over the block's tokens whose keys begin as the search's.
  template <class AmountOf>
  __device__ void add_up(KeySearch const& search, AmountOf const& amount) {
    auto* const first = &memory_.columns[0][0];
    for (int i = static_cast<int>(threadIdx.x); i < k_digit_values * k_columns; i += k_threads) first[i] = 0;
    __syncthreads();
    auto const column = threadIdx.x % k_columns;
    for_each_token([&](unsigned long long key, float logit) {
      if (!search.begins(key)) return;
      if (Amount const one = amount(key, logit); one != 0)
        atomicAdd(&memory_.columns[search.digit_of(key)][column], one);
    });
    __syncthreads();
    if (threadIdx.x >= k_digit_values) return;
    Amount sum = 0;
    // Each lane begins at another column: at another bank.
    for (unsigned i = 0; i < k_columns; ++i) sum += memory_.columns[threadIdx.x][(column + i) % k_columns];
    memory_.told[turn_][threadIdx.x] = sum;
  }

  __device__ Amount told_by_all(int digit) {
    Amount sum = 0;
    for (unsigned block = 0; block < k_blocks; ++block)
      sum += *cluster_.map_shared_rank(&memory_.told[turn_][digit], block);
    return sum;
  }

  /// One warp: lane l has eight digits, from the largest on.
  __device__ void choose_digit(Amount wanted) {
    constexpr int each = k_digit_values / 32;
    int const lane = static_cast<int>(threadIdx.x % 32), last = k_digit_values - 1 - each * lane;
    Amount own = 0;
    for (int i = 0; i < each; ++i) own += memory_.all[last - i];
    Amount upto = own;
    for (int lanes = 1; lanes < 32; lanes *= 2) {
      Amount const more = __shfl_up_sync(~0u, upto, static_cast<unsigned>(lanes));
      if (lane >= lanes) upto += more;
    }
    Amount before = upto - own;
    if (before >= wanted || upto < wanted) return;  // another lane's
    int digit = last;
    for (; before + memory_.all[digit] < wanted; --digit) before += memory_.all[digit];
    memory_.digit = digit, memory_.before = before;
  }

  Memory& memory_;
  cooperative_groups::cluster_group cluster_;
  float const* logits_;
  int begin_, end_;
  int turn_ = 0;
};

__device__ float logit_of(unsigned long long key) { return __uint_as_float(logit_bits_of(key)); }

/// All threads of the cluster; `most`: the largest logit.
__device__ int draw(Share& share, Draws const& d, float most, Amount bits) {
  auto const weight = [&](unsigned long long, float logit) { return weight_of(logit, most, d.scale); };
  unsigned long long least = 0;
  if (d.top_k > 0 && d.top_k < d.vocabulary) {
    KeySearch search{static_cast<Amount>(d.top_k)};
    share.find(search, [](unsigned long long, float) { return Amount{1}; });
    least = search.found;
  }
  Amount all = share.total([&](unsigned long long key, float logit) {
    return key >= least ? weight_of(logit, most, d.scale) : Amount{0};
  });
  if (d.top_p < 1) {
    KeySearch search{share_of(all, d.top_p)};
    Amount const wanted = search.wanted;
    share.find(search, weight);
    // With all of the last one.
    all = wanted - search.wanted + weight_of(logit_of(search.found), most, d.scale);
  }
  KeySearch search{below(all, bits) + 1};
  share.find(search, weight);
  return token_of(search.found);
}

__global__ void __cluster_dims__(k_blocks, 1, 1) __launch_bounds__(k_threads)
    sample_tokens(StepEnd end, Draws draws) {
  __shared__ Share::Memory memory;
  __shared__ int next;
  int const sequence = static_cast<int>(blockIdx.x) / k_blocks;
  int const position = end.cached[sequence] + 1;
  auto const best = end.best[sequence];
  bool const draws_one = position >= end.known[sequence] && end.ended[sequence] == 0 && is_finite_key(best);
  Share share(memory, end.logits + static_cast<long long>(sequence) * draws.vocabulary, draws.vocabulary);
  int found = token_of(best);
  if (draws_one) found = draw(share, draws, logit_of(best), random_bits(draws.seed, sequence, position));
  // All have read what is written now, and what other blocks have told.
  share.sync();
  if (!share.is_first()) return;
  if (threadIdx.x == 0) {
    take_best(end, sequence);
    next = next_token(end, sequence, found);
  }
  __syncthreads();
  for (int piece = static_cast<int>(threadIdx.x); piece < end.hidden / 8; piece += k_threads)
    embed_piece<Element>(end, sequence, piece, next);
}

}  // namespace

Draws draws_of(Sampling const& sampling, int vocabulary) {
  return {logit_scale(sampling), sampling.top_k, sampling.top_p, sampling.seed, vocabulary};
}

cudaError_t load_sample() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, sample_tokens);
}

cudaError_t sample(StepEnd const& end, Draws const& draws, cudaStream_t stream) {
  sample_tokens<<<static_cast<unsigned>(k_blocks * end.sequences), k_threads, 0, stream>>>(end, draws);
  return cudaGetLastError();
}

}  // namespace tessera::decode
