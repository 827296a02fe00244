// SPDX-License-Identifier: Apache-2.0
// Two blocks of a cluster that share the depth of two tiles: each loads half of the activations, and half of
// the depth of both tiles' weights, which are as many bytes as one tile's. Their sums meet through
// distributed shared memory, where nothing of the stream of weights is felt (docs/exchanges.md).
#pragma once

#include <tessera/run/roles.cuh>

#include "kernels/few_tokens/sum_exchange.cuh"

namespace tessera::few_tokens {

/// Sends the other block what this one came to for its tile's rows, and waits for what that one came to for
/// this block's. All threads that compute, behind a barrier behind SumExchange::store(). After a stall what
/// was sent may be missing.
template <class Element, int N, class Computer>
__device__ void exchange_with_pair(Product const& p, Computer& computer, SumExchange<Element, N>& exchange) {
  int const tile = computer.job->tile, rows = p.rows_per_feature;
  Range const own = p.range(tile), others = p.range(tile ^ 1);
  int const first = p.multiplied(tile).begin;
  int const own_rows = (own.end - own.begin) * rows, others_rows = (others.end - others.begin) * rows;
  int const others_first = (others.begin - first) * rows, pitch = p.sent_pitch();
  bool const norm = p.norm_epsilon > 0;

  RingPlace const place = computer.next_exchange();
  unsigned const room = computer.exchange_room(place);
  if (threadIdx.x == 0) computer.expect_exchange(place, static_cast<unsigned>(4 * p.tokens * (own_rows + 1)));
  unsigned const other = cluster_rank() ^ 1;
  unsigned const to = in_block(room, other);
  unsigned const barrier = in_block(computer.exchange_barrier(place), other);
  int const warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  // Behind a token's rows its squares, asked for or not: a block without rows waits for the other, too.
  // Another operation of the launch may have brought more warps.
  for (int token = warp; warp < k_warps && token < p.tokens; token += k_warps) {
    unsigned const of_token = to + static_cast<unsigned>(4 * token * pitch);
    for (int row = lane; row < others_rows; row += 32)
      store_remote(of_token + 4 * row, barrier, exchange.own_sum(token, others_first + row));
    if (lane == 0)
      store_remote(of_token + 4 * others_rows, barrier, norm ? exchange.own_sum(token, exchange.rows) : 0);
  }
  computer.wait_exchange(place);
  exchange.first_row = (own.begin - first) * rows;
  exchange.received = static_cast<float const*>(__cvta_shared_to_generic(room));
  exchange.received_pitch = pitch;
  exchange.received_rows = own_rows;
}

}  // namespace tessera::few_tokens
