// SPDX-License-Identifier: Apache-2.0
// The warpgroup that multiplies for up to 32 tokens: 64 rows of weights, the tokens as columns.
#pragma once

#include <tessera/sync/launch.cuh>

#include "activation.cuh"
#include "block.cuh"
#include "multiply.cuh"

namespace tessera::skinny_sm90 {

template <class Element, int N, int Tiles>
class Computer {
 public:
  static constexpr int warps = 4;
  static constexpr int split = 1;
  static constexpr bool partials_in_rings = false;
  using Sums = float[Tiles][N / 2];

  __device__ Computer(Parameters const& p, Block const& block)
      : p_(p),
        block_(block),
        thread_(static_cast<int>(threadIdx.x)),
        lane_(static_cast<int>(threadIdx.x % 32)) {}

  __device__ void run() {
    for (int job = 0; job < p_.first.waves + p_.second.waves; ++job) {
      bool const second = job >= p_.first.waves;
      Cut const& cut = second ? p_.second : p_.first;
      int const wave = second ? job - p_.first.waves : job;
      if (Tiles > 1 && cut.tiles > 1)
        do_job<Tiles>(cut, second, wave);
      else
        do_job<1>(cut, second, wave);
    }
  }

 private:
  template <int Used>
  __device__ void do_job(Cut const& cut, bool second, int wave) {
    Sums sums;
#pragma unroll
    for (int t = 0; t < Used; ++t)
#pragma unroll
      for (int i = 0; i < N / 2; ++i) sums[t][i] = 0;
    if (p_.activation_depth == 1)
      multiply<Used, 1>(cut, sums);
    else if (p_.activation_depth == 2)
      multiply<Used, 2>(cut, sums);
    else
      multiply<Used, 4>(cut, sums);
    if (__any_sync(~0u, stalled_)) leave_after_stall();
    if (second)
      store_output<Used>(cut, wave, sums);
    else
      store_hidden<Used>(cut, wave, sums);
  }

  // The sums over k, `Depth` k-blocks of activations at a time. What has been read is given back as soon as
  // the matrix instructions are done, not when the next stage is there: a stage held longer is not on its
  // way. No way out of its loops: matrix instructions in flight where threads may part would be made to wait
  // for each other. After a stall it goes through the motions.
  template <int Used, int Depth>
  __device__ void multiply(Cut const& cut, Sums& sums) {
    int const parts = cut.stage_depth / Depth;
    int const pitch = cut.slot_rows * 128;
#pragma unroll 1
    for (int i = 0; i < cut.stages; ++i) {
      RingPlace slot[Used];
      unsigned weights[Used];
#pragma unroll
      for (int t = 0; t < Used; ++t) {
        slot[t] = slot_;
        weights[t] = block_.slot(p_, slot_.index);
        slot_.next(p_.slots);
      }
#pragma unroll 1
      for (int part = 0; part < parts; ++part) {
        wait(block_.activations_full(stage_.index), stage_.parity);
        unsigned const b = operand_place(block_.activations(p_, stage_.index));
#pragma unroll
        for (int t = 0; t < Used; ++t) {
          if (part == 0) wait(block_.full(slot[t].index), slot[t].parity);
          unsigned a[Depth];
#pragma unroll
          for (int d = 0; d < Depth; ++d) a[d] = operand_place(weights[t] + d * pitch);
          weights[t] += Depth * pitch;
          multiply_fence();
#pragma unroll
          for (int d = 0; d < Depth; ++d)
#pragma unroll
            for (int step = 0; step < 4; ++step)
              Multiply<Element, N>::run(sums[t], operand(a[d] + 2 * step),
                                        operand(b + (d * N * 128 >> 4) + 2 * step));
          multiply_commit();
          multiply_wait<0>();
          if (part + 1 == parts) release(block_.empty(slot[t].index));
        }
        release(block_.activations_empty(stage_.index));
        stage_.next(p_.activation_stages);
      }
    }
#pragma unroll
    for (int t = 0; t < Used; ++t) settle(sums[t]);
  }

  __device__ void wait(unsigned barrier, unsigned parity) {
    if (!stalled_) stalled_ = !wait_until_stall(barrier, parity, p_);
  }

  // After a stall nothing is released: the warps that load leave too.
  __device__ void release(unsigned empty) const {
    if (lane_ == 0 && !stalled_) barrier_arrive(empty);
  }

  /// Of the first of the thread's two rows within a unit; the second is 8 below.
  __device__ int own_row() const { return thread_ / 32 % 4 * 16 + lane_ / 4; }

  template <int Used>
  __device__ void store_output(Cut const& cut, int wave, Sums const& sums) const {
    Element* const y = static_cast<Element*>(p_.y);
#pragma unroll
    for (int t = 0; t < Used; ++t) {
      Range const unit = block_.unit(cut, wave, t);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        int const feature = unit.begin + own_row() + 8 * half;
        if (feature >= unit.end) continue;
#pragma unroll
        for (int i = 0; i < (N / 2) / 2; ++i) {
          int const token = i / 2 * 8 + lane_ % 4 * 2 + i % 2;
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
      Range const unit = block_.unit(cut, wave, t);
      if (p_.gated)
        store_gated(cut, unit, sums[t]);
      else
        store_plain(cut, unit, sums[t]);
    }
    // The next reader is the copy engine.
    fence_proxy_async();
    __syncwarp();
#pragma unroll
    for (int t = 0; t < Used; ++t) post(block_.unit(cut, wave, t), cut.rows_per_feature);
  }

  __device__ void store_plain(Cut const& cut, Range unit, float const (&sums)[N / 2]) const {
    Element* const h = static_cast<Element*>(p_.h);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      int const feature = unit.begin + own_row() + 8 * half;
      if (feature >= unit.end) continue;
#pragma unroll
      for (int i = 0; i < (N / 2) / 2; ++i) {
        int const token = i / 2 * 8 + lane_ % 4 * 2 + i % 2;
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
      for (int j = 0; j < (N / 2) / 4; ++j) {
        float const first = sums[4 * j + 2 * half];
        float const second = sums[4 * j + 2 * half + 1];
        float const other = __shfl_xor_sync(~0u, up_lane ? first : second, 4);
        float const value = up_lane ? silu(other) * second : silu(first) * other;
        int const token = 8 * j + lane_ % 4 * 2 + (up_lane ? 1 : 0);
        if (feature < unit.end && token < p_.tokens)
          h[static_cast<long long>(token) * cut.features + feature] = static_cast<Element>(value);
      }
    }
  }

  // This warp's features of the unit, for each k-block of the second GEMM that they lie in.
  __device__ void post(Range unit, int rows_per_feature) const {
    int const begin = unit.begin + (thread_ / 32 % 4 * 16) / rows_per_feature;
    int const end = min(begin + 16 / rows_per_feature, unit.end);
    int const k = begin / depth_block + lane_;
    int const count = min(end, (k + 1) * depth_block) - max(begin, k * depth_block);
    if (lane_ < 2 && count > 0) add_release<Scope::device>(p_.semaphores + k, static_cast<unsigned>(count));
  }

  Parameters const& p_;
  Block const& block_;
  int thread_;
  int lane_;
  RingPlace slot_;
  RingPlace stage_;
  bool stalled_ = false;
};

}  // namespace tessera::skinny_sm90
