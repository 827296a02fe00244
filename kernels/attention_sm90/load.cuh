// SPDX-License-Identifier: Apache-2.0
// What the loading warp does: waits for what the plan says the tile reads, then loads queries, and blocks of
// keys and values from the last one to the first.
#pragma once

#include <tessera/sync/tensor_load.cuh>

#include "job.cuh"
#include "shape.cuh"

namespace tessera::attention_sm90 {

/// Rows of one head, in chunks of 64 columns.
template <class S>
__device__ inline void load_rows(unsigned to, CUtensorMap const& map, int row, int head, unsigned barrier) {
  barrier_expect(barrier, S::key_bytes);
#pragma unroll
  for (int c = 0; c < S::chunks; ++c)
    load_box(to + c * S::key_chunk_bytes, &map, c * k_chunk, row, head, barrier);
}

/// By one thread.
template <class S>
__device__ inline void load_tile(Parameters const& p, Room<S> const& room, Job const& job) {
  int const key_head = job.place.head / p.group;
  barrier_expect(room.queries_full(), S::query_bytes);
#pragma unroll
  for (int c = 0; c < S::chunks; ++c)
    load_box(room.queries() + c * S::query_chunk_bytes, &p.q, c * k_chunk,
             job.sequence.first_query + job.first_query, job.place.head % p.group, key_head,
             room.queries_full());
  auto const row = [&](int block) { return job.sequence.first_key + block * S::keys; };
  RingPlace of_keys, of_values;
  // A slot that nobody has used yet counts as emptied.
  auto const load_values = [&](int block) {
    wait_barrier(room.values_empty(of_values.index), of_values.parity ^ 1);
    load_rows<S>(room.values(of_values.index), p.v, row(block), key_head, room.values_full(of_values.index));
    of_values.next(S::stages);
  };
  for (int block = job.end - 1; block >= job.begin; --block) {
    wait_barrier(room.keys_empty(of_keys.index), of_keys.parity ^ 1);
    load_rows<S>(room.keys(of_keys.index), p.k, row(block), key_head, room.keys_full(of_keys.index));
    of_keys.next(S::stages);
    if (block + 1 < job.end) load_values(block + 1);
  }
  load_values(job.begin);
}

/// By one warp. After a wait that gave up it loads what is there, and nothing of it is stored.
template <class S, class View>
__device__ inline void wait_and_load(Parameters const& p, Room<S> const& room, Job const& job, View& view) {
  bool there = true;
  if (p.planned)
    there = view.template wait_all<Group::warp>(operand_a) & view.template wait_all<Group::warp>(operand_b) &
            view.template wait_all<Group::warp>(operand_c);
  fence_proxy_async();
  if (threadIdx.x % 32 != 0) return;
  if (!there) asm volatile("st.shared.u32 [%0], 1;" ::"r"(room.gave_up()) : "memory");
  if (job.blocks() > 0) load_tile(p, room, job);
}

}  // namespace tessera::attention_sm90
