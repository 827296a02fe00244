// SPDX-License-Identifier: Apache-2.0
// Rows of the embedding become the stream of residuals.
#pragma once

#include <cuda_bf16.h>

#include "kernels/decode/head.hpp"

namespace tessera::decode {

/// Of sequence s the row of token `token(s)`. Called by `threads` threads together.
template <class Element, class TokenOf>
__device__ void embed(StepEnd const& end, int threads, TokenOf const& token) {
  int const pieces = end.hidden / 8;
  for (int i = static_cast<int>(threadIdx.x); i < end.sequences * pieces; i += threads) {
    int const sequence = i / pieces, first = i % pieces * 8;
    auto const* const from = static_cast<Element const*>(end.embedding) +
                             static_cast<long long>(token(sequence)) * end.hidden + first;
    long long const at = static_cast<long long>(sequence) * end.hidden + first;
    auto const row = __ldg(reinterpret_cast<uint4 const*>(from));
    *reinterpret_cast<uint4*>(static_cast<Element*>(end.x) + at) = row;
    unsigned const words[4] = {row.x, row.y, row.z, row.w};
#pragma unroll
    for (int j = 0; j < 8; ++j)
      end.stream[at + j] = static_cast<float>(
          __builtin_bit_cast(Element, static_cast<unsigned short>(words[j / 2] >> j % 2 * 16)));
  }
}

}  // namespace tessera::decode
