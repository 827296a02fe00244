// SPDX-License-Identifier: Apache-2.0
// The warpgroups that multiply: 64 rows of weights each, all tokens as columns.
#pragma once

#include <tessera/sync/launch.cuh>

#include "block.cuh"
#include "multiply.cuh"

namespace tessera::skinny_sm90 {

template <class Element, int N, int Cluster, int Warpgroups, int Tiles>
class Computer {
 public:
  static constexpr int threads = Warpgroups * 128;
  static constexpr int own_tokens = N / Cluster;   ///< columns that this block finishes
  static constexpr int own_sums = own_tokens / 2;  ///< a thread's, of one tile
  using Sums = float[Tiles][N / 2];

  __device__ Computer(Parameters const& p, Block const& block)
      : p_(p),
        block_(block),
        thread_(static_cast<int>(threadIdx.x)),
        lane_(static_cast<int>(threadIdx.x % 32)),
        warpgroup_(__shfl_sync(~0u, static_cast<int>(threadIdx.x / 128), 0)) {}

  __device__ void run() {
    int const jobs = p_.first.waves + p_.second.waves;
    for (int job = 0; job < jobs; ++job) {
      bool const second = job >= p_.first.waves;
      Cut const& cut = second ? p_.second : p_.first;
      int const wave = second ? job - p_.first.waves : job;
      if (Tiles > 1 && cut.tiles > 1)
        do_job<Tiles>(cut, second, wave, job, job == jobs - 1);
      else
        do_job<1>(cut, second, wave, job, job == jobs - 1);
    }
  }

 private:
  template <int Used>
  __device__ void do_job(Cut const& cut, bool second, int wave, int job, bool last) {
    Sums sums;
#pragma unroll
    for (int t = 0; t < Used; ++t)
#pragma unroll
      for (int i = 0; i < N / 2; ++i) sums[t][i] = 0;
    if (warpgroup_ * 64 >= cut.slot_rows)
      skip<Used>(cut);
    else if (cut.stage_depth == 1)
      multiply<Used, 1>(cut, sums);
    else if (cut.stage_depth == 2)
      multiply<Used, 2>(cut, sums);
    else if (cut.stage_depth == 3)
      multiply<Used, 3>(cut, sums);
    else if (cut.stage_depth == 4)
      multiply<Used, 4>(cut, sums);
    else
      multiply<Used, 6>(cut, sums);
    if (__any_sync(~0u, stalled_)) leave_after_stall();
    if constexpr (Cluster > 1) exchange<Used>(cut, sums, job, last);
    if (second)
      store_output<Used>(cut, wave, sums);
    else
      store_hidden<Used>(cut, wave, sums);
  }

  // The sum over this block's part of k. No way out of its loop: matrix instructions in flight where threads
  // may part would be made to wait for each other. After a stall it goes through the motions.
  template <int Used, int Depth>
  __device__ void multiply(Cut const& cut, Sums& sums) {
    int const stages = block_.stages(cut).size();
    unsigned const weight_step = static_cast<unsigned>(cut.slot_rows * 128) >> 4;
    constexpr unsigned activation_step = N * 128 >> 4;
    int done_slot = -1;
    int done_stage = -1;
#pragma unroll 1
    for (int i = 0; i < stages; ++i) {
      wait(block_.activations_full(stage_.index), stage_.parity);
#pragma unroll
      for (int t = 0; t < Used; ++t) {
        wait(block_.full(slot_.index), slot_.parity);
        unsigned long long a = operand(block_.slot(p_, slot_.index) + warpgroup_ * 64 * 128);
        unsigned long long b = operand(block_.activations(p_, stage_.index));
        multiply_fence();
#pragma unroll
        for (int d = 0; d < Depth; ++d) {
#pragma unroll
          for (int step = 0; step < 4; ++step) Multiply<Element, N>::run(sums[t], a + 2 * step, b + 2 * step);
          a += weight_step;
          b += activation_step;
        }
        multiply_commit();
        multiply_wait<1>();
        release(done_slot, t == 0 ? done_stage : -1);
        done_slot = slot_.index;
        slot_.next(p_.slots);
      }
      done_stage = stage_.index;
      stage_.next(p_.activation_stages);
    }
    multiply_wait<0>();
#pragma unroll
    for (int t = 0; t < Used; ++t) settle(sums[t]);
    release(done_slot, done_stage);
  }

  // A warpgroup without rows keeps step with the rings.
  template <int Used>
  __device__ void skip(Cut const& cut) {
    int const stages = block_.stages(cut).size();
    for (int i = 0; i < stages; ++i) {
      wait(block_.activations_full(stage_.index), stage_.parity);
      for (int t = 0; t < Used; ++t) {
        wait(block_.full(slot_.index), slot_.parity);
        release(slot_.index, -1);
        slot_.next(p_.slots);
      }
      release(-1, stage_.index);
      stage_.next(p_.activation_stages);
    }
  }

  // As wait_barrier(), but comes back after a stall.
  __device__ void wait(unsigned barrier, unsigned parity) {
    for (unsigned tries = 1; !stalled_ && !barrier_try<false>(barrier, parity); ++tries)
      if (tries % 16 == 0) stalled_ = load_acquire<Scope::device>(&p_.watch.record->state) != 0;
  }

  // After a stall nothing is released: the warps that load leave too.
  __device__ void release(int slot, int stage) const {
    if (lane_ != 0 || stalled_) return;
    if (slot >= 0) barrier_arrive(block_.empty(slot));
    if (stage >= 0) barrier_arrive(block_.activations_empty(stage));
  }

  // Adds up the cluster's sums: each block ends up with those of its own tokens, at the front of each tile's.
  // Thread to thread: the sums keep the layout of the matrix instruction. A fixed order of adding, so that
  // results do not depend on timing.
  template <int Used>
  __device__ void exchange(Cut const& cut, Sums& sums, int job, bool last) {
    constexpr int vectors = own_sums / 4;
    unsigned const parity = job & 1;
    int const active = min(Warpgroups, (cut.slot_rows + 63) / 64) * 128;
    // Nothing is left in flight behind the last job, and more room is needed there.
    unsigned const area = (last ? block_.slot(p_, 0) : block_.activations(p_, 0)) + thread_ * 16;
    constexpr auto offset = [](int source, int t, int vector) {
      return static_cast<unsigned>(((source * Used + t) * vectors + vector) * threads * 16);
    };
    if (thread_ == 0) barrier_expect(block_.partials_full(), (Cluster - 1) * Used * vectors * active * 16);
    __syncwarp();
    if (lane_ < Cluster) barrier_arrive_remote(in_block(block_.exchange_open(), lane_));
    wait_barrier<true>(block_.exchange_open(), parity, p_.watch.record);
    // In this order the front of the sums is sent before the block's own take its place.
#pragma unroll
    for (int r = 0; r < Cluster; ++r) {
      if (r == block_.rank) {
#pragma unroll
        for (int t = 0; t < Used; ++t)
#pragma unroll
          for (int i = 0; i < own_sums; ++i) sums[t][i] = sums[t][r * own_sums + i];
      } else if (thread_ < active) {
        unsigned const source = static_cast<unsigned>(block_.rank - r + Cluster - 1) % Cluster;
        unsigned const to = in_block(area, r) + source * offset(1, 0, 0);
        unsigned const barrier = in_block(block_.partials_full(), r);
#pragma unroll
        for (int t = 0; t < Used; ++t)
#pragma unroll
          for (int v = 0; v < vectors; ++v) {
            float const* from = &sums[t][r * own_sums + 4 * v];
            store_remote(to + offset(0, t, v), barrier, from[0], from[1], from[2], from[3]);
          }
      }
    }
    wait_barrier<true>(block_.partials_full(), parity, p_.watch.record);
#pragma unroll
    for (int t = 0; t < Used; ++t)
#pragma unroll
      for (int v = 0; v < vectors; ++v)
#pragma unroll
        for (int source = 0; source < Cluster - 1; ++source) {
          float4 const part = load_shared(area + offset(source, t, v));
          sums[t][4 * v] += part.x;
          sums[t][4 * v + 1] += part.y;
          sums[t][4 * v + 2] += part.z;
          sums[t][4 * v + 3] += part.w;
        }
    fence_proxy_async_shared();
    __syncwarp();
    if (lane_ == 0) barrier_arrive(block_.exchange_over());
  }

  __device__ int own_token() const { return block_.rank * own_tokens; }
  /// Of the first of the thread's two rows within a unit; the second is 8 below.
  __device__ int own_row() const { return warpgroup_ * 64 + thread_ / 32 % 4 * 16 + lane_ / 4; }

  template <int Used>
  __device__ void store_output(Cut const& cut, int wave, Sums const& sums) const {
    Element* const y = static_cast<Element*>(p_.y);
#pragma unroll
    for (int t = 0; t < Used; ++t) {
      Range const unit = cut.unit(wave, p_.clusters, block_.cluster, t);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        int const feature = unit.begin + own_row() + 8 * half;
        if (feature >= unit.end) continue;
#pragma unroll
        for (int i = 0; i < own_sums / 2; ++i) {
          int const token = own_token() + i / 2 * 8 + lane_ % 4 * 2 + i % 2;
          if (token < p_.tokens)
            y[static_cast<long long>(token) * cut.features + feature] =
                static_cast<Element>(sums[t][i / 2 * 4 + half * 2 + i % 2]);
        }
      }
    }
  }

  template <int Used>
  __device__ void store_hidden(Cut const& cut, int wave, Sums const& sums) const {
#pragma unroll
    for (int t = 0; t < Used; ++t) {
      Range const unit = cut.unit(wave, p_.clusters, block_.cluster, t);
      if (p_.gated)
        store_gated(cut, unit, sums[t]);
      else
        store_plain(cut, unit, sums[t]);
    }
    // The next reader is the copy engine.
    fence_proxy_async();
    __syncwarp();
#pragma unroll
    for (int t = 0; t < Used; ++t) post(cut.unit(wave, p_.clusters, block_.cluster, t), cut.rows_per_feature);
  }

  /// tanh form: 0.5 (1 + tanh(u)) = 1 / (1 + exp(-2u)).
  __device__ static float gelu(float x) {
    float const u = 0.7978845608f * (x + 0.044715f * x * x * x);
    return x / (1 + __expf(-2 * u));
  }
  __device__ static float silu(float x) { return x / (1 + __expf(-x)); }

  __device__ void store_plain(Cut const& cut, Range unit, float const (&sums)[N / 2]) const {
    Element* const h = static_cast<Element*>(p_.h);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      int const feature = unit.begin + own_row() + 8 * half;
      if (feature >= unit.end) continue;
#pragma unroll
      for (int i = 0; i < own_sums / 2; ++i) {
        int const token = own_token() + i / 2 * 8 + lane_ % 4 * 2 + i % 2;
        if (token < p_.tokens)
          h[static_cast<long long>(token) * cut.features + feature] =
              static_cast<Element>(gelu(sums[i / 2 * 4 + half * 2 + i % 2]));
      }
    }
  }

  // Gate and up are neighbouring rows, in lanes that are 4 apart. Of each pair of tokens the gate's lane
  // finishes the first and the up's lane the second.
  __device__ void store_gated(Cut const& cut, Range unit, float const (&sums)[N / 2]) const {
    Element* const h = static_cast<Element*>(p_.h);
    bool const up_lane = lane_ / 4 % 2 != 0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      int const feature = unit.begin + (own_row() + 8 * half) / 2;
#pragma unroll
      for (int j = 0; j < own_sums / 4; ++j) {
        float const first = sums[4 * j + 2 * half];
        float const second = sums[4 * j + 2 * half + 1];
        float const other = __shfl_xor_sync(~0u, up_lane ? first : second, 4);
        float const value = up_lane ? silu(other) * second : silu(first) * other;
        int const token = own_token() + 8 * j + lane_ % 4 * 2 + (up_lane ? 1 : 0);
        if (feature < unit.end && token < p_.tokens)
          h[static_cast<long long>(token) * cut.features + feature] = static_cast<Element>(value);
      }
    }
  }

  // This warp's features of the unit, for each k-block of the second GEMM that they lie in.
  __device__ void post(Range unit, int rows_per_feature) const {
    int const begin = unit.begin + (warpgroup_ * 64 + thread_ / 32 % 4 * 16) / rows_per_feature;
    int const end = min(begin + 16 / rows_per_feature, unit.end);
    int const k = begin / depth_block + lane_;
    int const count = min(end, (k + 1) * depth_block) - max(begin, k * depth_block);
    if (lane_ < 2 && count > 0)
      add_release<Scope::device>(p_.semaphores + k,
                                 static_cast<unsigned>(count * (parts_of_feature / Cluster)));
  }

  Parameters const& p_;
  Block const& block_;
  int thread_;
  int lane_;
  int warpgroup_;
  Position slot_;
  Position stage_;
  bool stalled_ = false;
};

}  // namespace tessera::skinny_sm90
