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
