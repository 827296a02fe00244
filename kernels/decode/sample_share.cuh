// SPDX-License-Identifier: Apache-2.0
// A block's share of the vocabulary, in shared memory, and what a cluster's blocks find out together about
// all tokens. Sums are of integers: they depend on no order.
#pragma once

#include <cooperative_groups.h>

#include "kernels/decode/draw.hpp"
#include "kernels/decode/next_token.cuh"

namespace tessera::decode {

constexpr int k_sample_blocks = 8;  ///< of a cluster, one for each sequence
constexpr int k_sample_threads = 512;
constexpr int k_sample_columns =
    16;  ///< sums of a digit apart from each other: most logits begin with few digits
constexpr int k_most_listed =
    256;  ///< tokens of a block, and of all blocks where they are compared one by one

struct SampleMemory {
  /// Of a digit and a column: a sum's low and high half. Shared memory adds 32 bits by itself, 64 in a loop.
  unsigned low[k_digit_values][k_sample_columns];
  unsigned high[k_digit_values][k_sample_columns];
  /// Of the block; in turns, so that blocks may read the one while the next is written.
  Amount told[2][k_digit_values];
  int told_count[2];  ///< tokens of the block's list, and which list it is
  int told_list[2];
  Amount all[k_digit_values];
  Amount warps[k_sample_threads / 32];
  /// Keys of the tokens that are kept, and of those among them that a search has come to.
  unsigned long long list[2][k_most_listed];
  unsigned long long left[k_most_listed];  ///< of all blocks
  Amount amounts[k_most_listed];
  unsigned long long found;
  Amount before;
  int count;
  int digit;
};

__device__ inline float logit_of(unsigned long long key) { return __uint_as_float(logit_bits_of(key)); }

class Share {
 public:
  /// All threads of all blocks. `room`: floats behind `memory`, for as many of the share's logits.
  __device__ Share(SampleMemory& memory, float const* logits, int vocabulary, int room)
      : memory_(memory),
        cluster_(cooperative_groups::this_cluster()),
        here_(reinterpret_cast<float*>(&memory + 1)),
        room_(room) {
    auto const rank = static_cast<long long>(cluster_.block_rank());
    begin_ = static_cast<int>(rank * vocabulary / k_sample_blocks);
    tokens_ = static_cast<int>((rank + 1) * vocabulary / k_sample_blocks) - begin_;
    there_ = logits + begin_;
#pragma unroll 8
    for (int i = thread(); i < min(tokens_, room_); i += k_sample_threads) here_[i] = there_[i];
    __syncthreads();
  }

  __device__ void sync() { cluster_.sync(); }
  __device__ bool is_first() const { return cluster_.block_rank() == 0; }

  /// Later passes look at tokens from this key on, and, where few are left, at no others.
  __device__ void keep_from(unsigned long long least) {
    least_ = least;
    bool const fits = make_list(0, [&](unsigned long long key) { return key >= least; });
    kept_ = fits ? memory_.count : k_all;
  }

  /// The sum of `amount(logit)` over all tokens that are kept. All threads of all blocks.
  template <class AmountOf>
  __device__ Amount total(AmountOf const& amount) {
    Amount sum = 0;
    for_each(0, kept_, [&](unsigned long long key) { sum += amount(logit_of(key)); });
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

  /// Finds the token with which amounts come to search.wanted, which all of them do. All threads of all
  /// blocks; so is the result. A digit after the other, until so few tokens are left that each is compared
  /// with all.
  template <class AmountOf>
  __device__ void find(KeySearch& search, AmountOf const& amount) {
    int list = 0, count = kept_;
    while (!search.is_over()) {
      add_up(search, list, count, amount);
      if (threadIdx.x == 0) memory_.told_count[turn_] = count, memory_.told_list[turn_] = list;
      sync();
      int const left = gather_lists();
      if (left <= k_most_listed) {
        choose_token(search, left, amount);
        turn_ ^= 1;
        return;
      }
      if (threadIdx.x < k_digit_values) memory_.all[threadIdx.x] = told_by_all(thread());
      turn_ ^= 1;
      __syncthreads();
      if (threadIdx.x < 32) choose_digit(search.wanted);
      __syncthreads();
      search.take(memory_.digit, memory_.before);
      if (count != k_all && list == 1) continue;  // short enough; others may be reading it
      bool const fits = make_list(1, [&](unsigned long long key) { return search.begins(key); });
      if (fits) list = 1, count = memory_.count;
    }
  }

 private:
  static constexpr int k_all = 1 << 20;  ///< tokens of a list that there is not: all of the share

  __device__ static int thread() { return static_cast<int>(threadIdx.x); }

  /// Tokens of a list, or all that are kept. In no order.
  template <class Body>
  __device__ void for_each(int list, int count, Body const& body) const {
    if (count != k_all) {
      if (thread() < count) body(memory_.list[list][thread()]);
      return;
    }
    for (int i = thread(); i < tokens_; i += k_sample_threads) {
      float const logit = i < room_ ? here_[i] : there_[i];
      auto const key = key_of(__float_as_uint(logit), begin_ + i);
      if (key >= least_) body(key);
    }
  }

  /// Fills a list with the kept tokens for which `wanted(key)`; memory_.count of them. False: they are too
  /// many.
  template <class Wanted>
  __device__ bool make_list(int list, Wanted const& wanted) {
    __syncthreads();  // all have read the count
    if (thread() == 0) memory_.count = 0;
    __syncthreads();
    for_each(0, kept_, [&](unsigned long long key) {
      if (!wanted(key)) return;
      int const at = atomicAdd(&memory_.count, 1);
      if (at < k_most_listed) memory_.list[list][at] = key;
    });
    __syncthreads();
    return memory_.count <= k_most_listed;
  }

  /// Of each digit the sum over the block's tokens whose keys begin as the search's.
  template <class AmountOf>
  __device__ void add_up(KeySearch const& search, int list, int count, AmountOf const& amount) {
    auto* const low = &memory_.low[0][0];
    auto* const high = &memory_.high[0][0];
    for (int i = thread(); i < k_digit_values * k_sample_columns; i += k_sample_threads) low[i] = high[i] = 0;
    __syncthreads();
    auto const column = threadIdx.x % k_sample_columns;
    for_each(list, count, [&](unsigned long long key) {
      if (!search.begins(key)) return;
      Amount const one = amount(logit_of(key));
      if (one == 0) return;
      int const digit = search.digit_of(key);
      auto const of_low = static_cast<unsigned>(one);
      bool const carry = atomicAdd(&memory_.low[digit][column], of_low) + of_low < of_low;
      auto const of_high = static_cast<unsigned>(one >> 32) + (carry ? 1u : 0u);
      if (of_high != 0) atomicAdd(&memory_.high[digit][column], of_high);
    });
    __syncthreads();
    if (threadIdx.x >= k_digit_values) return;
    Amount sum = 0;
    // Each lane begins at another column: at another bank.
    for (unsigned i = 0; i < k_sample_columns; ++i) {
      unsigned const at = (column + i) % k_sample_columns;
      sum += static_cast<Amount>(memory_.high[threadIdx.x][at]) << 32 | memory_.low[threadIdx.x][at];
    }
    memory_.told[turn_][threadIdx.x] = sum;
  }

  template <class T>
  __device__ T of_block(T& mine, unsigned block) {
    return *cluster_.map_shared_rank(&mine, block);
  }
  __device__ Amount told_by_all(int digit) {
    Amount sum = 0;
    for (unsigned block = 0; block < k_sample_blocks; ++block)
      sum += of_block(memory_.told[turn_][digit], block);
    return sum;
  }

  /// Tokens that are left in all blocks, and, if they are few, their keys. A list stays as it is until all
  /// blocks have met again.
  __device__ int gather_lists() {
    int sum = 0;
    for (unsigned block = 0; block < k_sample_blocks; ++block) {
      int const count = of_block(memory_.told_count[turn_], block);
      if (sum + count <= k_most_listed && thread() < count) {
        int const list = of_block(memory_.told_list[turn_], block);
        memory_.left[sum + thread()] = of_block(memory_.list[list][thread()], block);
      }
      sum += count;
    }
    return sum;
  }

  /// Each thread has a token, and adds up what comes before it.
  template <class AmountOf>
  __device__ void choose_token(KeySearch& search, int left, AmountOf const& amount) {
    __syncthreads();
    bool const mine = thread() < left && search.begins(memory_.left[min(thread(), left - 1)]);
    if (thread() < left) memory_.amounts[thread()] = mine ? amount(logit_of(memory_.left[thread()])) : 0;
    __syncthreads();
    if (mine) {
      auto const key = memory_.left[thread()];
      Amount before = 0;
      for (int i = 0; i < left; ++i) before += memory_.left[i] > key ? memory_.amounts[i] : 0;
      if (before < search.wanted && before + memory_.amounts[thread()] >= search.wanted)
        memory_.found = key, memory_.before = before;
    }
    __syncthreads();
    search.end_at(memory_.found, memory_.before);
    __syncthreads();
  }

  /// One warp: lane l has eight digits, from the largest on.
  __device__ void choose_digit(Amount wanted) {
    constexpr int each = k_digit_values / 32;
    int const lane = thread() % 32, last = k_digit_values - 1 - each * lane;
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

  SampleMemory& memory_;
  cooperative_groups::cluster_group cluster_;
  float* here_;
  int room_;
  float const* there_;
  int begin_, tokens_;
  unsigned long long least_ = 0;
  int kept_ = k_all;  ///< tokens of the list of those that are kept
  int turn_ = 0;
};

}  // namespace tessera::decode
