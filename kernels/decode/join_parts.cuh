// SPDX-License-Identifier: Apache-2.0
// The parts of attention of one sequence and key head: those of warps are put together in shared memory,
// those of tiles in device memory by the tile that ends last. Nobody waits for anybody.
#pragma once

#include "kernels/decode/attention_warp.cuh"
#include "kernels/decode/last_to_arrive.cuh"

namespace tessera::decode {

/// What each of `Warps` warps has, in shared memory: sums, [warp][query][attention_pitch()]. Returns what is
/// behind them, of each warp and query the largest score and the sum of weights. A barrier has to follow.
template <int Warps, class Element, int HeadSize>
__device__ float2* store_sums(AttentionWarp<Element, HeadSize>& state, int group, float* sums) {
  constexpr int pitch = attention_pitch(HeadSize);
  auto* const weights = reinterpret_cast<float2*>(sums + Warps * group * pitch);
  int const warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x % 32);
  state.finish();
  if (int const query = lane / 4; query < group) {
    auto* const to = sums + (warp * group + query) * pitch + lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < HeadSize / 8; ++n)
      *reinterpret_cast<float2*>(to + 8 * n) = make_float2(state.sums[n][0], state.sums[n][1]);
    if (lane % 4 == 0) weights[warp * group + query] = make_float2(state.most[0], state.total[0]);
  }
  return weights;
}

/// Result `i` of what the block's warps have, [query][HeadSize], as store_sums() has left it.
template <int HeadSize, int Warps>
__device__ Joined join_warps(float const* sums, float2 const* weights, int group, int i) {
  int const query = i / HeadSize, d = i % HeadSize;
  Joined joined;
#pragma unroll
  for (int w = 0; w < Warps; ++w)
    joined.add(weights[w * group + query], sums[(w * group + query) * attention_pitch(HeadSize) + d]);
  return joined;
}

/// All threads that compute, behind a barrier. `Arguments`: AttentionArguments, or what has the same output,
/// parts and counters.
template <class Element, int HeadSize, int Warps, class Arguments, class Computer>
__device__ void join_parts(Arguments const& a, AttentionTile const& tile, Computer& computer,
                           float const* sums, float2 const* weights) {
  int const pair = tile.sequence * a.kv_heads + tile.head;
  int const results = a.group * HeadSize, first = pair * a.splits, part = first + tile.split;
  auto* const output = static_cast<Element*>(a.output) + static_cast<long long>(pair) * results;
  auto* const of_parts =
      a.splits > 1
          ? reinterpret_cast<float2*>(a.parts + static_cast<long long>(a.tiles()) * a.group * HeadSize)
          : nullptr;
  for (int i = static_cast<int>(threadIdx.x); i < results; i += Computer::threads) {
    auto const joined = join_warps<HeadSize, Warps>(sums, weights, a.group, i);
    if (of_parts == nullptr) {
      output[i] = static_cast<Element>(joined.sum / joined.total);
      continue;
    }
    a.parts[static_cast<long long>(part) * results + i] = joined.sum;
    if (i % HeadSize == 0) of_parts[part * a.group + i / HeadSize] = make_float2(joined.most, joined.total);
  }
  if (of_parts == nullptr) return;
  if (!last_to_arrive(computer, a.arrived + pair, static_cast<unsigned>(a.splits))) return;
  for (int i = static_cast<int>(threadIdx.x); i < results; i += Computer::threads) {
    Joined joined;
    constexpr int at_once = 8;
    for (int s = 0; s < a.splits; s += at_once) {
      float2 weight[at_once];
      float sum[at_once];
#pragma unroll
      for (int j = 0; j < at_once; ++j) {
        int const one = first + min(s + j, a.splits - 1);
        weight[j] = __ldcg(of_parts + one * a.group + i / HeadSize);
        sum[j] = __ldcg(a.parts + static_cast<long long>(one) * results + i);
      }
#pragma unroll
      for (int j = 0; j < at_once; ++j)
        if (s + j < a.splits) joined.add(weight[j], sum[j]);
    }
    output[i] = static_cast<Element>(joined.sum / joined.total);
  }
}

}  // namespace tessera::decode
