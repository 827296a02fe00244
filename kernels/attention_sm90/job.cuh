// SPDX-License-Identifier: Apache-2.0
// A tile of attention as its threads see it: the sequence, its queries, and the blocks of keys to look at.
#pragma once

#include "parameters.hpp"

namespace tessera::attention_sm90 {

struct Job {
  TilePlace place;
  Sequence sequence;
  int first_query = 0;     ///< of the sequence
  KeyRange seen;           ///< by some query of the tile
  int begin = 0, end = 0;  ///< blocks of keys

  __device__ bool empty() const { return first_query >= sequence.queries; }
  __device__ int blocks() const { return end - begin; }
};

/// Lengths are read by all lanes and handed out by the first one, so that the compiler knows them to be the
/// same: where lanes could part, it puts waits between matrix instructions.
__device__ inline int same(int value) { return __shfl_sync(~0u, value, 0); }

__device__ inline Sequence sequence_of(Parameters const& p, int number) {
  Sequence s{number * p.query_step, p.queries_each, number * p.key_step, p.keys_each};
  if (p.query_offsets != nullptr) {
    s.first_query = __ldcg(p.query_offsets + number);
    s.queries = __ldcg(p.query_offsets + number + 1) - s.first_query;
  }
  if (p.key_offsets != nullptr) {
    s.first_key = __ldcg(p.key_offsets + number);
    if (p.key_lengths == nullptr) s.keys = __ldcg(p.key_offsets + number + 1) - s.first_key;
  }
  if (p.key_lengths != nullptr) s.keys = __ldcg(p.key_lengths + number);
  // What is no row of q or k is neither read nor written, whatever the offsets say.
  s.queries = max(0, min(s.queries, p.query_rows - s.first_query));
  s.keys = max(0, min(s.keys, p.key_rows - s.first_key));
  if (s.first_query < 0) s.queries = 0;
  if (s.first_key < 0) s.keys = 0;
  return {same(s.first_query), same(s.queries), same(s.first_key), same(s.keys)};
}

/// Whose is block `block` of a grid that has the blocks of each sequence one behind the other? By all lanes
/// of a warp. What is no sequence's is a tile without queries.
template <class S>
__device__ TilePlace packed_place(Parameters const& p, int head, int block) {
  constexpr int lanes = 32, no_block = 1 << 22;
  int const lane = static_cast<int>(threadIdx.x) % lanes;
  int before = 0;
  for (int first = 0; first < p.tiles.sequences; first += lanes) {
    int const number = first + lane;
    int blocks = 0;
    if (number < p.tiles.sequences) {
      int const rows = __ldcg(p.query_offsets + number + 1) - __ldcg(p.query_offsets + number);
      blocks = rows > 0 ? (rows + S::queries - 1) / S::queries : 0;
    }
    int end = blocks;
#pragma unroll
    for (int apart = 1; apart < lanes; apart *= 2) {
      int const more = __shfl_up_sync(~0u, end, apart);
      if (lane >= apart) end += more;
    }
    end += before;
    unsigned const later = __ballot_sync(~0u, block < end);
    if (later != 0) {
      int const owner = __ffs(static_cast<int>(later)) - 1;
      return {head, same(block - __shfl_sync(~0u, end - blocks, owner)), same(first + owner)};
    }
    before = __shfl_sync(~0u, end, lanes - 1);
  }
  return {head, no_block, 0};
}

template <class S>
__device__ Job job_of(Parameters const& p, TilePlace const& place) {
  Job job;
  job.place = place;
  job.sequence = sequence_of(p, place.sequence);
  job.first_query = place.query_block * S::queries;
  int const last = min(job.first_query + S::queries, job.sequence.queries) - 1;
  job.seen = p.sight.of(job.sequence, job.first_query, last);
  if (!job.seen.empty() && !job.empty()) {
    job.begin = job.seen.begin / S::keys;
    job.end = (job.seen.end + S::keys - 1) / S::keys;
  }
  return job;
}

}  // namespace tessera::attention_sm90
