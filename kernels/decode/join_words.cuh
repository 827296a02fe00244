// SPDX-License-Identifier: Apache-2.0
// The parts of attention of one sequence and key head, put together by all blocks that have one: each sends
// its sums as words, and finishes a share of the results. Two trips through the L2, of which the second is
// the reader's, where a counter of who has arrived takes a fence, an atomic addition and a fence more.
#pragma once

#include "kernels/decode/attention.hpp"
#include "kernels/decode/attention_warp.cuh"
#include "kernels/few_tokens/product.hpp"
#include "kernels/few_tokens/token_words.cuh"

namespace tessera::decode {

/// All threads that compute, behind a barrier of theirs. `sums`, `weights`: of the block's warps,
/// [warp][query] [attention_pitch()] and [warp][query], in shared memory; behind them is room for what comes.
/// Each result is the same in every run: parts are added in the same order.
template <class Element, int HeadSize, class Computer>
__device__ void join_words(AttentionArguments const& a, AttentionTile const& tile, Computer& computer,
                           float const* sums, float2 const* weights) {
  constexpr int pitch = attention_pitch(HeadSize), lanes = 16, at_once = 4;
  int const thread = static_cast<int>(threadIdx.x);
  int const results = a.group * HeadSize, of_part = part_words_of(a.group, HeadSize);
  int const pair = tile.sequence * a.kv_heads + tile.head;
  auto* const parts = a.part_words + static_cast<long long>(pair) * a.splits * of_part;
  unsigned const token = computer.serial;
  unsigned* const output = a.output_words + static_cast<long long>(pair) * results;
  auto const finish = [&](int i, Joined const& joined) {
    auto const element = static_cast<Element>(joined.sum / joined.total);
    few_tokens::store_word(output + i,
                           few_tokens::token_word(__builtin_bit_cast(unsigned short, element), token));
  };

  for (int i = thread; i < results; i += Computer::threads) {
    int const query = i / HeadSize, d = i % HeadSize;
    // The largest score first, so that no weight waits for another.
    Joined joined;
    float2 weight[k_attention_warps];
#pragma unroll
    for (int w = 0; w < k_attention_warps; ++w) {
      weight[w] = weights[w * a.group + query];
      joined.most = fmaxf(joined.most, weight[w].x);
    }
    float const relative_to = joined.most == -INFINITY ? 0 : joined.most;
#pragma unroll
    for (int w = 0; w < k_attention_warps; ++w) {
      float const of_warp = exp2f(weight[w].x - relative_to);
      joined.total += weight[w].y * of_warp;
      joined.sum += sums[(w * a.group + query) * pitch + d] * of_warp;
    }
    if (a.splits == 1) {
      finish(i, joined);
      continue;
    }
    auto* const own = parts + tile.split * of_part;
    auto const send = [&](int at, float value) {
      tessera::detail::store_item<Scope::device>(own + at, {{__float_as_uint(value)}, token});
    };
    send(i, joined.sum);
    if (d == 0) send(results + 2 * query, joined.most), send(results + 2 * query + 1, joined.total);
  }
  if (a.splits == 1) return;

  // Of each part: the share of sums, [part][result], then weights of all queries, [part][query].
  auto const share = few_tokens::part(results, a.splits, tile.split);
  int const count = share.end - share.begin, of_weights = 2 * a.group;
  auto* const received = const_cast<float*>(sums) + attention_sums(a.group, HeadSize);
  int const all_sums = a.splits * count, all = all_sums + a.splits * of_weights;
  int const even = all_sums % 2;  // pairs of floats behind them
  for (int first = thread; first < all; first += at_once * Computer::threads) {
    Packet<1> const* from[at_once];
    Packet<1> found[at_once];
#pragma unroll
    for (int j = 0; j < at_once; ++j) {
      int const i = first + j * Computer::threads, w = i - all_sums;
      from[j] = i >= all       ? nullptr
                : i < all_sums ? parts + i / count * of_part + share.begin + i % count
                               : parts + w / of_weights * of_part + results + w % of_weights;
    }
    if (!few_tokens::load_packets(computer, from, token, found)) break;
#pragma unroll
    for (int j = 0; j < at_once; ++j)
      if (int const i = first + j * Computer::threads; i < all)
        received[i + (i < all_sums ? 0 : even)] = __uint_as_float(found[j].payload[0]);
  }
  if (computer.anyone_stopped()) return;

  auto const* const weight = reinterpret_cast<float2 const*>(received + all_sums + even);
  for (int first = 0; first < count; first += Computer::threads / lanes) {
    int const r = first + thread / lanes, i = min(r, count - 1);
    int const query = (share.begin + i) / HeadSize;
    Joined joined;
    for (int s = thread % lanes; s < a.splits; s += lanes)
      joined.add(weight[s * a.group + query], received[s * count + i]);
    float most = joined.most;
#pragma unroll
    for (int apart = 1; apart < lanes; apart *= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, apart));
    float const own = joined.most == -INFINITY ? 0 : exp2f(joined.most - most);
    joined.total = sum_of_lanes<lanes>(joined.total * own);
    joined.sum = sum_of_lanes<lanes>(joined.sum * own);
    if (thread % lanes == 0 && r < count) finish(share.begin + r, joined);
  }
}

}  // namespace tessera::decode
