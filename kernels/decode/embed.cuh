// SPDX-License-Identifier: Apache-2.0
// Rows of the embedding become the stream of residuals.
#pragma once

#include <cuda_bf16.h>

#include "kernels/decode/head.hpp"

namespace tessera::decode {

/// Eight elements of a row, number `piece`, of a token. Token -1: zeros.
template <class Element>
__device__ void embed_piece(StepEnd const& end, int row, int piece, int token) {
  auto const* const from = static_cast<Element const*>(end.embedding) +
                           static_cast<long long>(max(token, 0)) * end.hidden + 8 * piece;
  long long const at = static_cast<long long>(row) * end.hidden + 8 * piece;
  auto const eight = token < 0 ? make_uint4(0, 0, 0, 0) : __ldg(reinterpret_cast<uint4 const*>(from));
  *reinterpret_cast<uint4*>(static_cast<Element*>(end.x) + at) = eight;
  unsigned const words[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
  for (int j = 0; j < 8; ++j)
    end.stream[at + j] = static_cast<float>(
        __builtin_bit_cast(Element, static_cast<unsigned short>(words[j / 2] >> j % 2 * 16)));
}

/// Of sequence s the row of token `token(s)`. Called by `threads` threads together.
template <class Element, class TokenOf>
__device__ void embed(StepEnd const& end, int threads, TokenOf const& token) {
  int const pieces = end.hidden / 8;
  for (int i = static_cast<int>(threadIdx.x); i < end.sequences * pieces; i += threads)
    embed_piece<Element>(end, i / pieces, i % pieces, token(i / pieces));
}

}  // namespace tessera::decode
