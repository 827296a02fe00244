// SPDX-License-Identifier: Apache-2.0
// Rows of the embedding become the stream of residuals.
#pragma once

#include <cuda_bf16.h>

#include "kernels/decode/head.hpp"

namespace tessera::decode {

/// What is added to eight elements of a token's row at its position.
__device__ inline void add_position(StepEnd const& end, int piece, int token, int position,
                                    float (&values)[8]) {
  // Behind the last one nothing is read any more.
  auto const row = static_cast<long long>(min(position, end.capacity - 1)) * end.hidden + 8 * piece;
  auto const* const from = reinterpret_cast<float4 const*>(end.positions + row);
  float4 const low = __ldg(from), high = __ldg(from + 1);
  float const added[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
  float const mean = __ldg(end.means + token);
#pragma unroll
  for (int j = 0; j < 8; ++j) values[j] += added[j] - mean;
}

/// Eight elements of a row, number `piece`, of a token. Token -1: zeros. `Extras`: positions may be learned.
template <class Element, bool Extras = true>
__device__ void embed_piece(StepEnd const& end, int row, int piece, int token, int position) {
  auto const* const from = static_cast<Element const*>(end.embedding) +
                           static_cast<long long>(max(token, 0)) * end.hidden + 8 * piece;
  long long const at = static_cast<long long>(row) * end.hidden + 8 * piece;
  auto const eight = token < 0 ? make_uint4(0, 0, 0, 0) : __ldg(reinterpret_cast<uint4 const*>(from));
  auto* const rounded = static_cast<Element*>(end.x) + at;
  unsigned const words[4] = {eight.x, eight.y, eight.z, eight.w};
  float values[8];
#pragma unroll
  for (int j = 0; j < 8; ++j)
    values[j] = static_cast<float>(
        __builtin_bit_cast(Element, static_cast<unsigned short>(words[j / 2] >> j % 2 * 16)));
  if (Extras && end.positions != nullptr && token >= 0) {
    add_position(end, piece, token, position, values);
#pragma unroll
    for (int j = 0; j < 8; ++j) rounded[j] = static_cast<Element>(values[j]);
  } else {
    *reinterpret_cast<uint4*>(rounded) = eight;
  }
#pragma unroll
  for (int j = 0; j < 8; ++j) end.stream[at + j] = values[j];
}

/// Of sequence s the row of token `token(s)`, at the position that it reads next. Called by `threads` threads
/// together.
template <class Element, bool Extras = true, class TokenOf>
__device__ void embed(StepEnd const& end, int threads, TokenOf const& token) {
  int const pieces = end.hidden / 8;
  for (int i = static_cast<int>(threadIdx.x); i < end.sequences * pieces; i += threads) {
    int const sequence = i / pieces;
    int const position = Extras && end.positions != nullptr ? end.cached[sequence] : 0;
    embed_piece<Element, Extras>(end, sequence, i % pieces, token(sequence), position);
  }
}

}  // namespace tessera::decode
