// SPDX-License-Identifier: Apache-2.0
// Activations that the warps that compute fetch themselves: words that carry the iteration (token_words.cuh),
// or what was there before the launch. No warp hands them on, so that they are multiplied one trip through
// the L2 after they were stored. For one and two tokens, whose activations fit beside the rings.
#pragma once

#include "kernels/few_tokens/product.hpp"
#include "kernels/few_tokens/token_words.cuh"

namespace tessera::few_tokens {

/// Looks until words[0 .. count) are of `serial`, and hands each four of them to `store(first, words)`.
/// `count`: a multiple of 4. All threads that compute; a barrier comes before anyone reads what was stored.
template <class Computer, class Store>
__device__ void fetch_words(Computer& computer, unsigned const* words, int count, unsigned serial,
                            Store const& store) {
  constexpr int loads = 8, threads = Computer::threads;
  for (int first = 4 * static_cast<int>(threadIdx.x); first < count; first += 4 * loads * threads) {
    uint4 value[loads];
    unsigned missing = 0;
#pragma unroll
    for (int j = 0; j < loads; ++j)
      if (first + 4 * j * threads < count) missing |= 1u << j;
    auto patience = computer.watch().begin();
    for (;;) {
#pragma unroll
      for (int j = 0; j < loads; ++j)
        if (missing >> j & 1) value[j] = load_words(words + first + 4 * j * threads);
      unsigned late = 0;
#pragma unroll
      for (int j = 0; j < loads; ++j)
        if ((missing >> j & 1) && !are_of(value[j], serial)) late |= 1u << j;
#pragma unroll
      for (int j = 0; j < loads; ++j)
        if ((missing & ~late) >> j & 1) store(first + 4 * j * threads, value[j]);
      missing = late;
      if (missing == 0) break;
      unsigned seen = 0;
#pragma unroll
      for (int j = 0; j < loads; ++j)
        if (missing >> j & 1) seen = value[j].x >> 16;
      if (!computer.watch().go_on(patience, computer.place_of(data_token_of(computer.job->iteration)), seen,
                                  token_of_serial(serial))) {
        computer.stop();
        return;
      }
    }
  }
}

/// A product's input to shared memory at `to`, as place_in_lines() says. Ends with a barrier of all threads
/// that compute.
template <class Computer>
__device__ void fetch_input(Product const& p, Computer& computer, unsigned to) {
  int const depth = p.depth, tokens = p.tokens;
  auto const store = [&](int element, uint4 const& four) {
    int const token = element >= depth ? 1 : 0;
    store_elements(to + place_in_lines(element - token * depth, token, tokens), four);
  };
  int const count = tokens * depth;
  if (computer.job->iteration >= p.input_distance) {
    fetch_words(computer, p.input_words[0], count, computer.serial - static_cast<unsigned>(p.input_distance),
                store);
  } else {
    auto const* const plain = static_cast<uint2 const*>(p.input_maps);
    for (int first = 4 * static_cast<int>(threadIdx.x); first < count; first += 4 * Computer::threads) {
      uint2 const four = __ldcg(plain + first / 4);
      store(first, make_uint4(four.x, four.x >> 16, four.y, four.y >> 16));
    }
  }
  // The last slot of weights may have zeros behind the matrix, which are multiplied, too.
  for (int at = 2 * count + 16 * static_cast<int>(threadIdx.x); at < p.input_bytes();
       at += 16 * Computer::threads)
    asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(to + static_cast<unsigned>(at)), "r"(0)
                 : "memory");
  if (computer.anyone_stopped()) computer.stop();
}

}  // namespace tessera::few_tokens
