// SPDX-License-Identifier: Apache-2.0
// What a computing warpgroup does with its 64 queries: for each block of keys, from the last one, scores,
// their softmax, and the sums of values. The scores of the next block are multiplied together with the values
// of this one, and warpgroups take turns at that, so that one multiplies while another has its softmax.
#pragma once

#include "kernels/skinny_mlp_sm90/hopper.cuh"
#include "multiply.cuh"
#include "shape.cuh"
#include "softmax.cuh"

namespace tessera::attention_sm90 {

namespace sm90 = skinny_sm90;

template <class S>
class Computer {
 public:
  using Element = typename S::Element;

  __device__ Computer(Parameters const& p, Room<S> const& room, Job const& job, int group)
      : p_(p), room_(room), job_(job), group_(group), lane_(static_cast<int>(threadIdx.x) % 32) {
    int const warp = static_cast<int>(threadIdx.x) / 32 % 4;
    group_query_ = job.first_query + k_group_queries * group;
    query_ = group_query_ + 16 * warp + lane_ / 4;
    last_query_ = min(group_query_ + k_group_queries, job.sequence.queries) - 1;
    queries_ = sm90::operand_place(room.queries() + group * (k_group_queries * k_line));
#pragma unroll
    for (int i = 0; i < 2; ++i) seen_[i] = p.sight.of(job.sequence, query_ + 8 * i);
  }

  /// Leaves the results in `sums`.
  __device__ __forceinline__ void run() {
#pragma unroll
    for (float& sum : sums_) sum = 0;
    if (job_.blocks() == 0) return;
    if (S::groups > 1 && group_ == S::groups - 1 && job_.blocks() > 1)
      named_arrive(k_turn_barrier, k_two_groups);
    wait_barrier(room_.queries_full(), 0);
    wait_barrier(room_.keys_full(keys_.index), keys_.parity);
    float shrink[2];
    sm90::multiply_fence();
    multiply_scores();
    sm90::multiply_commit();
    sm90::multiply_wait<0>();
    sm90::settle(scores_);
    release(room_.keys_empty(keys_.index));
    keys_.next(S::stages);
    if (is_partly_hidden(job_.end - 1)) hide_scores(job_.end - 1);
    make_weights(job_.end - 1, shrink);
    pack<Element, S::keys>(weights_, scores_);
    if (job_.blocks() > 1) clear_values(job_.end - 1);
#pragma unroll 1
    for (int block = job_.end - 2; block >= job_.begin; --block)
      if (is_partly_hidden(block))
        step<true>(block);
      else
        step<false>(block);
    clear_values(job_.begin);
    wait_barrier(room_.values_full(values_.index), values_.parity);
    sm90::multiply_fence();
    multiply_values();
    sm90::multiply_commit();
    sm90::multiply_wait<0>();
    sm90::settle(sums_);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float const sum = sum_of_four(rows_.sum[i]);
      // A query that sees nothing gives zeros.
      float const scale = sum == 0.0f ? 0.0f : p_.weight_scale / sum;
#pragma unroll
      for (int j = 0; j < S::head_size / 8; ++j)
#pragma unroll
        for (int c = 0; c < 2; ++c) sums_[4 * j + 2 * i + c] *= scale;
    }
  }

  /// By way of shared memory, where the warpgroup's queries were: whole lines to the rows that there are.
  __device__ __forceinline__ void store() {
    int const warp = static_cast<int>(threadIdx.x) / 32 % 4, row = 16 * warp + lane_ / 4;
    unsigned const from = room_.queries() + group_ * (k_group_queries * k_line);
    // All of the warpgroup have multiplied their queries.
    named_sync(k_group_barrier + group_, k_warpgroup);
#pragma unroll
    for (int j = 0; j < S::head_size / 8; ++j)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        unsigned const to = from + j / 8 * S::query_chunk_bytes + (row + 8 * i) * k_line +
                            ((j % 8) ^ (row % 8)) * 16 + lane_ % 4 * 4;
        asm volatile("st.shared.b32 [%0], %1;" ::"r"(to),
                     "r"(packed<Element>(sums_[4 * j + 2 * i], sums_[4 * j + 2 * i + 1]))
                     : "memory");
      }
    __syncwarp();
    auto const& place = p_.out_place;
    auto* const out = static_cast<Element*>(p_.out) + job_.place.head / p_.group * place.group +
                      job_.place.head % p_.group * place.head;
    int const unit = lane_ % 8;
#pragma unroll
    for (int chunk = 0; chunk < S::chunks; ++chunk) {
      if (chunk * k_chunk + unit * 8 >= p_.head_size) continue;
#pragma unroll
      for (int r = 0; r < 16; r += 4) {
        int const at = 16 * warp + r + lane_ / 8, query = group_query_ + at;
        float4 const line =
            sm90::load_shared(from + chunk * S::query_chunk_bytes + at * k_line + (unit ^ at % 8) * 16);
        if (query < job_.sequence.queries)
          *reinterpret_cast<float4*>(out + (job_.sequence.first_query + query) * place.row + chunk * k_chunk +
                                     unit * 8) = line;
      }
    }
  }

 private:
  static constexpr int k_two_groups = 2 * k_warpgroup;  ///< who had the last turn, and whose it is
  static constexpr unsigned k_step_units = 2;           ///< of 16 bytes: 16 columns of a row

  __device__ __forceinline__ void multiply_scores() {
    unsigned const keys = sm90::operand_place(room_.keys(keys_.index));
#pragma unroll
    for (int s = 0; s < S::head_size / 16; ++s) {
      unsigned const in_chunk = k_step_units * (s % 4);
      auto const a = sm90::operand(queries_ + s / 4 * (S::query_chunk_bytes / 16) + in_chunk);
      auto const b = sm90::operand(keys + s / 4 * (S::key_chunk_bytes / 16) + in_chunk);
      if (s == 0)
        Scores<Element, S::keys>::template run<0>(scores_, a, b);
      else
        Scores<Element, S::keys>::template run<1>(scores_, a, b);
    }
  }

  __device__ __forceinline__ void multiply_values() {
    unsigned const values = sm90::operand_place(room_.values(values_.index));
#pragma unroll
    for (int s = 0; s < S::keys / 16; ++s)
      Weighted<Element, S::head_size>::run(sums_, weights_[s], by_rows(values + s * (16 * k_line / 16)));
  }
  /// An operand whose columns lie one behind the other: patterns of 8 rows, chunks of 64 columns.
  __device__ static unsigned long long by_rows(unsigned place) {
    constexpr unsigned low_mask = 0xffffu;
    constexpr unsigned chunk_stride = S::key_chunk_bytes / 16;
    return sm90::operand((place & low_mask) | chunk_stride << 16);
  }

  template <bool Hides>
  __device__ __forceinline__ void step(int block) {
    float shrink[2];
    wait_barrier(room_.keys_full(keys_.index), keys_.parity);
    if (S::groups > 1) named_sync(k_turn_barrier + group_, k_two_groups);
    sm90::multiply_fence();
    multiply_scores();
    sm90::multiply_commit();
    wait_barrier(room_.values_full(values_.index), values_.parity);
    sm90::multiply_fence();
    multiply_values();
    sm90::multiply_commit();
    if (S::groups > 1 && (group_ < S::groups - 1 || block > job_.begin))
      named_arrive(k_turn_barrier + (group_ + 1) % S::groups, k_two_groups);
    sm90::multiply_wait<1>();
    sm90::settle(scores_);
    release(room_.keys_empty(keys_.index));
    keys_.next(S::stages);
    if (Hides) hide_scores(block);
    make_weights(block, shrink);
    sm90::multiply_wait<0>();
    sm90::settle(sums_);
    release(room_.values_empty(values_.index));
    values_.next(S::stages);
    pack<Element, S::keys>(weights_, scores_);
#pragma unroll
    for (int j = 0; j < S::head_size / 8; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) sums_[4 * j + e] *= shrink[e / 2];
  }

  __device__ bool is_partly_hidden(int block) const {
    KeyRange const keys{block * S::keys, (block + 1) * S::keys};
    return !p_.sight.all(job_.sequence, group_query_, last_query_, keys);
  }
  __device__ __forceinline__ void hide_scores(int block) {
    int const from = block * S::keys + 2 * (lane_ % 4);
    KeyRange const seen[2] = {{seen_[0].begin - from, seen_[0].end - from},
                              {seen_[1].begin - from, seen_[1].end - from}};
    hide<S::keys>(scores_, seen);
  }
  __device__ __forceinline__ void make_weights(int block, float (&shrink)[2]) {
    weigh<S::keys>(scores_, rows_, p_.scale, shrink);
    if constexpr (S::drops) drop<S::keys>(scores_, p_, job_.place, query_, block * S::keys);
  }

  /// Values that no query of the tile sees may be anything, and a weight of zero times that may be no number:
  /// zeros in their place. All warpgroups write them, so that each has only itself to wait for.
  __device__ __forceinline__ void clear_values(int block) {
    int const first = block * S::keys, begin = job_.seen.begin - first, end = job_.seen.end - first;
    if (begin <= 0 && end >= S::keys) return;
    wait_barrier(room_.values_full(values_.index), values_.parity);
    int const thread = static_cast<int>(threadIdx.x) % k_warpgroup;
    for (int line = thread / 8; line < S::chunks * S::keys; line += k_warpgroup / 8) {
      int const key = line % S::keys;
      if (key >= begin && key < end) continue;
      asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(room_.values(values_.index) +
                                                                    line * k_line + thread % 8 * 16),
                   "r"(0)
                   : "memory");
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    named_sync(k_group_barrier + group_, k_warpgroup);
  }

  /// By each warp for itself: what it has multiplied is read.
  __device__ void release(unsigned barrier) const {
    if (lane_ == 0) barrier_arrive(barrier);
  }

  Parameters const& p_;
  Room<S> const room_;
  Job const& job_;
  int group_, lane_;
  int group_query_, last_query_, query_;
  unsigned queries_;
  KeyRange seen_[2];
  RingPlace keys_, values_;
  RowState rows_;
  float scores_[S::keys / 2];
  unsigned weights_[S::keys / 16][4];
  float sums_[S::head_size / 2];
};

}  // namespace tessera::attention_sm90
