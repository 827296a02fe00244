// SPDX-License-Identifier: Apache-2.0
// The parts of attention of one sequence and key head, put together by the blocks of a cluster through their
// shared memory: what join_parts() does in device memory, without a counter.
#pragma once

#include <tessera/sync/cluster.cuh>

#include "kernels/decode/join_parts.cuh"

namespace tessera::decode {

/// All threads of the cluster's blocks, behind a barrier of the block's: `sums` and `weights` as of
/// store_sums(). A block has a part, all parts are a cluster's. Room behind the weights: (HeadSize + 2)
/// floats of each query.
template <class Element, int HeadSize, int Warps, class Arguments>
__device__ void join_in_cluster(Arguments const& a, AttentionTile const& tile, float const* sums,
                                float2* weights) {
  constexpr int threads = 32 * Warps;
  int const results = a.group * HeadSize;
  auto* const part_weights = weights + Warps * a.group;
  auto* const part = reinterpret_cast<float*>(part_weights + a.group);
  for (int i = static_cast<int>(threadIdx.x); i < results; i += threads) {
    auto const joined = join_warps<HeadSize, Warps>(sums, weights, a.group, i);
    part[i] = joined.sum;
    if (i % HeadSize == 0) part_weights[i / HeadSize] = make_float2(joined.most, joined.total);
  }
  __syncwarp();
  cluster_arrive();
  cluster_wait();
  auto* const output = static_cast<Element*>(a.output) +
                       static_cast<long long>(tile.sequence * a.kv_heads + tile.head) * results;
  // Each block has a share of the results.
  int const share = (results + a.splits - 1) / a.splits, begin = share * tile.split;
  for (int i = begin + static_cast<int>(threadIdx.x); i < min(begin + share, results); i += threads) {
    float2 weight[k_most_cluster];
    float sum[k_most_cluster];
#pragma unroll
    for (int s = 0; s < k_most_cluster; ++s) {
      auto const block = static_cast<unsigned>(min(s, a.splits - 1));
      weight[s] = load_remote_pair(in_block(shared_address(part_weights + i / HeadSize), block));
      sum[s] = load_remote_float(in_block(shared_address(part + i), block));
    }
    Joined joined;
#pragma unroll
    for (int s = 0; s < k_most_cluster; ++s)
      if (s < a.splits) joined.add(weight[s], sum[s]);
    output[i] = static_cast<Element>(joined.sum / joined.total);
  }
  __syncwarp();
  cluster_arrive();  // others read here until then
  cluster_wait();
}

}  // namespace tessera::decode
