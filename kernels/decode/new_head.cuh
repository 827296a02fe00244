// SPDX-License-Identifier: Apache-2.0
// A query, key or value of a new token, from where the product before attention has put it: its shift is
// added, it is normed and turned, all in fp32, and rounded once.
#pragma once

#include "kernels/decode/attention_warp.cuh"

namespace tessera::decode {

/// The four lanes of a query hold it, as AttentionWarp's fragments are held.
template <class Element, int HeadSize>
struct NewHead {
  using Warp = AttentionWarp<Element, HeadSize>;
  using Fragment = typename Warp::Fragment;
  static constexpr int steps = Warp::steps;

  float2 at[steps][2];

  /// Device memory, written by a launch before this one. `shift`: fp32, of the head; null: nothing.
  __device__ NewHead(Element const* from, float const* shift) {
    each([&](float2& pair, int element) {
      pair = unpacked<Element>(__ldcg(reinterpret_cast<unsigned const*>(from + element)));
      if (shift == nullptr) return;
      auto const by = __ldg(reinterpret_cast<float2 const*>(shift + element));
      pair.x += by.x, pair.y += by.y;
    });
  }
  /// RMSNorm; null gains: not normed. All lanes of the warp.
  __device__ void norm(void const* gains, float epsilon) {
    if (gains == nullptr) return;
    float squares = 0;
    each([&](float2& pair, int) { squares += pair.x * pair.x + pair.y * pair.y; });
    float const scale = rsqrtf(sum_of_lanes<4>(squares) / HeadSize + epsilon);
    each([&](float2& pair, int element) {
      auto const by = unpacked<Element>(
          __ldg(reinterpret_cast<unsigned const*>(static_cast<Element const*>(gains) + element)));
      pair.x *= scale * by.x, pair.y *= scale * by.y;
    });
  }
  /// Turned by its position, and rounded; null: rounded alone.
  __device__ void turn_to(Turn const* of_position, Fragment& to) const {
    if (of_position == nullptr) return round_to(to);
    typename Warp::Turns turns;
    Warp::load_turns(of_position, turns);
#pragma unroll
    for (int s = 0; s < steps / 2; ++s)
#pragma unroll
      for (int h = 0; h < 2; ++h)
        turn_pairs<Element>(to[s][h], to[s + steps / 2][h], turns[s][h], at[s][h], at[s + steps / 2][h]);
  }
  __device__ void round_to(Fragment& to) const {
#pragma unroll
    for (int s = 0; s < steps; ++s)
#pragma unroll
      for (int h = 0; h < 2; ++h) to[s][h] = packed<Element>(at[s][h].x, at[s][h].y);
  }

 private:
  template <class Work>
  __device__ void each(Work const& work) {
#pragma unroll
    for (int s = 0; s < steps; ++s)
#pragma unroll
      for (int h = 0; h < 2; ++h) work(at[s][h], Warp::element(s, h));
  }
};

}  // namespace tessera::decode
