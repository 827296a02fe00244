// SPDX-License-Identifier: Apache-2.0
// The body of kernels that turn queries and keys: what else is done with keys and values is said by a Sink.
#pragma once

#include <cuda_bf16.h>

#include <tessera/sync.cuh>

#include "kernels/norm_rope/rope.hpp"

namespace tessera::kernels {

/// Lanes of a head, a power of two. A lane has 8 elements of each half; with heads of 80 and 96 some have
/// none.
TESSERA_HOST_DEVICE constexpr int lanes_of_head(int head_size) {
  return head_size <= 64 ? 4 : head_size <= 128 ? 8 : 16;
}

/// Eight elements in fp32.
struct Eight {
  float at[8];

  static __device__ Eight of(uint4 const& bits) {
    Eight result;
    unsigned const words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      float2 const pair = __bfloat1622float2(*reinterpret_cast<__nv_bfloat162 const*>(&words[j]));
      result.at[2 * j] = pair.x, result.at[2 * j + 1] = pair.y;
    }
    return result;
  }
  __device__ uint4 rounded() const {
    unsigned words[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      auto const pair = __floats2bfloat162_rn(at[2 * j], at[2 * j + 1]);
      words[j] = *reinterpret_cast<unsigned const*>(&pair);
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
  }
  __device__ void add(float const* shifts) {
    auto const low = __ldg(reinterpret_cast<float4 const*>(shifts));
    auto const high = __ldg(reinterpret_cast<float4 const*>(shifts) + 1);
    float const by[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (int j = 0; j < 8; ++j) at[j] += by[j];
  }
  __device__ float squares() const {
    float sum = 0;
#pragma unroll
    for (int j = 0; j < 8; ++j) sum += at[j] * at[j];
    return sum;
  }
  __device__ void times(float scale, void const* gains) {
    auto const by = of(__ldg(static_cast<uint4 const*>(gains)));
#pragma unroll
    for (int j = 0; j < 8; ++j) at[j] *= scale * by.at[j];
  }
};

/// Half-split: element j of `low` with element j of `high`.
__device__ inline void turn_halves(Eight& low, Eight& high, float2 const* by) {
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    float2 const turn = __ldg(by + j);
    float const l = low.at[j], h = high.at[j];
    low.at[j] = l * turn.x - h * turn.y;
    high.at[j] = h * turn.x + l * turn.y;
  }
}
/// Interleaved: elements 2 * j and 2 * j + 1.
__device__ inline void turn_neighbours(Eight& eight, float2 const* by) {
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    float2 const turn = __ldg(by + j);
    float const l = eight.at[2 * j], h = eight.at[2 * j + 1];
    eight.at[2 * j] = l * turn.x - h * turn.y;
    eight.at[2 * j + 1] = h * turn.x + l * turn.y;
  }
}

/// A Sink has
///   int position(int row) const                     of a row, below 0: nothing is done with it
///   static constexpr bool takes                     are keys and values asked for?
///   void key(int row, int head, int piece, uint4)   8 elements from 8 * piece on, and `value` likewise
template <int HeadSize, class Sink>
__device__ void turn_all_heads(Heads const& h, Sink const& sink) {
  constexpr int lanes = lanes_of_head(HeadSize), pieces = HeadSize / 8;
  pdl_trigger();
  pdl_wait();
  int const slots = h.group + 2;
  auto const thread = static_cast<long long>(blockIdx.x) * k_rope_threads + threadIdx.x;
  auto const unit = thread / lanes;
  int const lane = static_cast<int>(thread % lanes);
  int const of_row = h.key_heads * slots;
  int const row = static_cast<int>(unit / of_row), in_row = static_cast<int>(unit % of_row);
  int const head = in_row / slots, slot = in_row % slots;
  int const position = row < h.rows ? sink.position(row) : -1;
  bool const is_value = slot == h.group + 1, is_key = slot == h.group;
  bool const works =
      position >= 0 && lane < HeadSize / 16 && (!is_value || Sink::takes || h.shifts != nullptr);
  auto* const at = static_cast<uint4*>(h.qkv) + unit * pieces;
  Eight low{}, high{};
  if (works) {
    low = Eight::of(at[lane]), high = Eight::of(at[lane + pieces / 2]);
    if (h.shifts != nullptr) {
      auto const* const by = h.shifts + in_row * HeadSize + 8 * lane;
      low.add(by), high.add(by + HeadSize / 2);
    }
  }
  // All lanes of a warp: heads differ in what they do.
  if (h.query_gains != nullptr) {
    float squares = low.squares() + high.squares();
#pragma unroll
    for (int apart = 1; apart < lanes; apart *= 2) squares += __shfl_xor_sync(~0u, squares, apart);
    if (works && !is_value) {
      float const scale = rsqrtf(squares / HeadSize + h.norm_epsilon);
      auto const* const gains =
          static_cast<__nv_bfloat16 const*>(is_key ? h.key_gains : h.query_gains) + 8 * lane;
      low.times(scale, gains), high.times(scale, gains + HeadSize / 2);
    }
  }
  if (!works) return;
  if (!is_value && h.turns != nullptr) {
    auto const* const turns = h.turns + static_cast<long long>(position) * (HeadSize / 2);
    if (h.interleaved) {
      turn_neighbours(low, turns + 4 * lane);
      turn_neighbours(high, turns + HeadSize / 4 + 4 * lane);
    } else {
      turn_halves(low, high, turns + 8 * lane);
    }
  }
  uint4 const first = low.rounded(), second = high.rounded();
  if (!is_value || h.shifts != nullptr) at[lane] = first, at[lane + pieces / 2] = second;
  if constexpr (Sink::takes) {
    if (is_key) sink.key(row, head, lane, first), sink.key(row, head, lane + pieces / 2, second);
    if (is_value) sink.value(row, head, lane, first), sink.value(row, head, lane + pieces / 2, second);
  }
}

/// Blocks that turn_all_heads() wants.
inline unsigned rope_blocks(Heads const& h) {
  long long const units = static_cast<long long>(h.rows) * h.key_heads * (h.group + 2);
  return static_cast<unsigned>((units * lanes_of_head(h.head_size) + k_rope_threads - 1) / k_rope_threads);
}

}  // namespace tessera::kernels
