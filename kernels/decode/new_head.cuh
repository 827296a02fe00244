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
  __device__ void turn(Turn const* of_position) {
#pragma unroll
    for (int s = 0; s < steps / 2; ++s)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        auto const by = __ldg(reinterpret_cast<float4 const*>(of_position + Warp::element(s, h)));
        auto &low = at[s][h], &high = at[s + steps / 2][h];
        float2 const l = low, u = high;
        low = make_float2(l.x * by.x - u.x * by.y, l.y * by.z - u.y * by.w);
        high = make_float2(u.x * by.x + l.x * by.y, u.y * by.z + l.y * by.w);
      }
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
