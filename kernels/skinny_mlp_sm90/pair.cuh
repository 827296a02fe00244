// SPDX-License-Identifier: Apache-2.0
// The warpgroups that multiply for 33 to 128 tokens, in pairs of blocks: each block multiplies twice the rows
// over half of the depth, so that half as many bytes of activations enter it. A warpgroup has 64 tokens as
// rows; the rows of weights are the columns. Then the blocks exchange partial sums through distributed shared
// memory, and each finishes half of the columns.
#pragma once

#include <tessera/sync/launch.cuh>

#include "activation.cuh"
#include "block.cuh"
#include "multiply.cuh"

namespace tessera::skinny_sm90 {

template <class Element, int Warpgroups>
class PairComputer {
 public:
  static constexpr int warps = 4 * Warpgroups;
  static constexpr int split = 2;

  __device__ PairComputer(Parameters const& p, Block const& block)
      : p_(p),
        block_(block),
        thread_(static_cast<int>(threadIdx.x)),
        lane_(static_cast<int>(threadIdx.x % 32)),
        warpgroup_(__shfl_sync(~0u, static_cast<int>(threadIdx.x / 128), 0)) {}

  __device__ void run() {
    int const jobs = p_.first.waves + p_.second.waves;
    for (int job = 0; job < jobs; ++job) {
      bool const second = job >= p_.first.waves;
      Job const one{second ? p_.second : p_.first,
                    second,
                    second ? job - p_.first.waves : job,
                    job,
                    job == jobs - 2,
                    job == jobs - 1};
      int const columns = pair_columns(one.cut.box_rows);
      if (columns == 64)
        do_job<1, 64>(one);
      else if (columns == 96)
        do_job<1, 96>(one);
      else if (columns == 128)
        do_job<2, 64>(one);
      else
        do_job<2, 96>(one);
    }
  }

 private:
  struct Job {
    Cut const& cut;
    bool second;
    int wave;
    int number;
    bool before_last;
    bool last;
  };

  template <int Used, int Columns>
  __device__ void do_job(Job const& job) {
    constexpr int own_sums = Used * Columns / 4;
    float own[own_sums];
    {
      float sums[Used][Columns / 2];
#pragma unroll
      for (int t = 0; t < Used; ++t)
#pragma unroll
        for (int i = 0; i < Columns / 2; ++i) sums[t][i] = 0;
      if (job.cut.stage_depth == 1 || p_.activation_depth == 1)
        multiply<Used, Columns, 1>(job.cut, sums);
      else
        multiply<Used, Columns, 2>(job.cut, sums);
      if (__any_sync(~0u, stalled_)) leave_after_stall();
      exchange<Used, Columns>(job, sums, own);
    }
    Range const unit = block_.unit(job.cut, job.wave, 0);
    int const rows = job.cut.rows_per_feature;
    Range const own_rows{unit.begin * rows + block_.rank * (Used * Columns / 2), unit.end * rows};
    if (job.second) {
      store<own_sums>(p_.y, job.cut.features, own_rows, own, [](float x) { return x; });
    } else {
      if (p_.gated)
        store_gated<own_sums>(job.cut.features, own_rows, own);
      else
        store<own_sums>(p_.h, job.cut.features, own_rows, own, [](float x) { return gelu(x); });
      // The next reader is the copy engine.
      fence_proxy_async();
      __syncwarp();
      post({own_rows.begin / rows, min(own_rows.begin / rows + Used * Columns / 2 / rows, unit.end)},
           job.number);
    }
  }

  // Behind the last job of 128 tokens the partial sums lie in the ring of weights, for want of room.
  static constexpr bool last_in_ring = Warpgroups > 1;

  // The sums over this block's part of k, `Depth` k-blocks at a time. What the next needs is worked out, and
  // looked whether it is there, while the tensor cores are busy. No way out of the loop: matrix instructions
  // in flight where threads may part would be made to wait for each other. After a stall it goes through the
  // motions.
  template <int Used, int Columns, int Depth>
  __device__ void multiply(Cut const& cut, float (&sums)[Used][Columns / 2]) {
    int const weights_pitch = kept(cut.slot_rows * 128);
    int const part_blocks = kept(cut.part_blocks);
    int const stage_depth = kept(cut.stage_depth);
    constexpr int activations_pitch = Warpgroups * 64 * 128;
    int in_slot = 0;  // k-blocks of it that are done
    int in_stage = 0;
    unsigned slot = 0;
    unsigned stage = 0;
    bool there = false;
    auto look = [&] {
      slot = block_.slot(p_, slot_.index) + in_slot * weights_pitch;
      stage = block_.activations(p_, stage_.index) + in_stage * activations_pitch + warpgroup_ * 64 * 128;
      bool const slot_full = barrier_test(block_.full(slot_.index), slot_.parity);
      bool const stage_full = barrier_test(block_.activations_full(stage_.index), stage_.parity);
      there = __all_sync(~0u, slot_full && stage_full);
    };
    look();
#pragma unroll 1
    for (int k = 0; k < part_blocks; k += Depth) {
      if (!there) {
        wait(block_.full(slot_.index), slot_.parity);
        wait(block_.activations_full(stage_.index), stage_.parity);
      }
      unsigned weights[Depth];
#pragma unroll
      for (int d = 0; d < Depth; ++d) weights[d] = operand_place(slot + d * weights_pitch);
      unsigned const activations = operand_place(stage);
      multiply_fence();
#pragma unroll
      for (int d = 0; d < Depth; ++d)
#pragma unroll
        for (int step = 0; step < 4; ++step)
#pragma unroll
          for (int t = 0; t < Used; ++t)
            Multiply<Element, Columns>::run(sums[t],
                                            operand(activations + (d * activations_pitch >> 4) + 2 * step),
                                            operand(weights[d] + (t * Columns * 128 >> 4) + 2 * step));
      multiply_commit();
      unsigned const read_slot = block_.empty(slot_.index);
      unsigned const read_stage = block_.activations_empty(stage_.index);
      in_slot += Depth;
      in_stage += Depth;
      bool const slot_done = in_slot == stage_depth;
      bool const stage_done = in_stage == p_.activation_depth;
      if (slot_done) {
        slot_.next(p_.slots);
        in_slot = 0;
      }
      if (stage_done) {
        stage_.next(p_.activation_stages);
        in_stage = 0;
      }
      look();
      multiply_wait<0>();
      if (slot_done) release(read_slot);
      if (stage_done) release(read_stage);
    }
#pragma unroll
    for (int t = 0; t < Used; ++t) settle(sums[t]);
  }

  // Sends the other block its half of the columns, thread to thread, and adds what it sends to this block's
  // half. The other may send when this one has read what it got before; into the ring when this one has
  // multiplied, for behind the last job nothing is on its way there.
  template <int Used, int Columns>
  __device__ void exchange(Job const& job, float (&sums)[Used][Columns / 2],
                           float (&own)[Used * Columns / 4]) {
    constexpr int half = Used * Columns / 4;
    constexpr auto at = [](auto& all, int i) -> float& { return all[i / (Columns / 2)][i % (Columns / 2)]; };
    constexpr unsigned threads = warps * 32;
    unsigned const area =
        (last_in_ring && job.last ? block_.slot(p_, 0) : block_.partials(p_)) + thread_ * 16;
    unsigned const other = 1 - block_.rank;
    if (thread_ == 0) barrier_expect(block_.partials_full(), half * 4 * threads);
    if (job.number > 0) {
      if (last_in_ring && job.last) open(other);
      wait_barrier<true>(block_.partials_open(), (job.number - 1) & 1, p_);
    }
    unsigned const to = in_block(area, other);
    unsigned const barrier = in_block(block_.partials_full(), other);
    bool const front = block_.rank == 0;
#pragma unroll
    for (int i = 0; i < half; i += 4) {
      float sent[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        sent[j] = front ? at(sums, half + i + j) : at(sums, i + j);
        own[i + j] = front ? at(sums, i + j) : at(sums, half + i + j);
      }
      store_remote(to + i / 4 * threads * 16, barrier, sent[0], sent[1], sent[2], sent[3]);
    }
    wait_barrier<true>(block_.partials_full(), job.number & 1, p_);
#pragma unroll
    for (int i = 0; i < half; i += 4) {
      float4 const part = load_shared(area + i / 4 * threads * 16);
      own[i] += part.x;
      own[i + 1] += part.y;
      own[i + 2] += part.z;
      own[i + 3] += part.w;
    }
    if (!job.last && !(last_in_ring && job.before_last)) open(other);
  }

  /// Tells the other block that this warp has done with its room for partial sums.
  __device__ void open(unsigned other) const {
    __syncwarp();
    if (lane_ == 0) barrier_arrive_remote(in_block(block_.partials_open(), other));
  }

  /// In a register: the compiler would load it again for each step.
  __device__ static int kept(int value) {
    asm volatile("" : "+r"(value));
    return value;
  }

  __device__ void wait(unsigned barrier, unsigned parity) {
    if (!stalled_) stalled_ = !wait_until_stall(barrier, parity, p_);
  }
  // After a stall nothing is released: the warps that load leave too.
  __device__ void release(unsigned empty) const {
    if (lane_ == 0 && !stalled_) barrier_arrive(empty);
  }

  /// Of the first of the thread's two tokens; the second is 8 behind.
  __device__ int own_token() const { return warpgroup_ * 64 + thread_ / 32 % 4 * 16 + lane_ / 4; }

  // Pairs of neighbours; units begin and end at even features.
  template <int Count, class Function>
  __device__ void store(void* matrix, int features, Range rows, float const (&sums)[Count],
                        Function finish) const {
    struct alignas(4) Two {
      Element a, b;
    };
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      int const token = own_token() + 8 * half;
      if (token >= p_.tokens) continue;
      Element* const to = static_cast<Element*>(matrix) + static_cast<long long>(token) * features;
#pragma unroll
      for (int j = 0; j < Count / 4; ++j) {
        int const feature = rows.begin + 8 * j + lane_ % 4 * 2;
        Two const two{static_cast<Element>(finish(sums[4 * j + 2 * half])),
                      static_cast<Element>(finish(sums[4 * j + 2 * half + 1]))};
        if (feature < rows.end) *reinterpret_cast<Two*>(to + feature) = two;
      }
    }
  }

  // Gate and up are neighbours.
  template <int Count>
  __device__ void store_gated(int features, Range rows, float const (&sums)[Count]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      int const token = own_token() + 8 * half;
      if (token >= p_.tokens) continue;
      Element* const to = static_cast<Element*>(p_.h) + static_cast<long long>(token) * features;
#pragma unroll
      for (int j = 0; j < Count / 4; ++j) {
        int const row = rows.begin + 8 * j + lane_ % 4 * 2;
        if (row < rows.end)
          to[row / 2] = static_cast<Element>(silu(sums[4 * j + 2 * half]) * sums[4 * j + 2 * half + 1]);
      }
    }
  }

  // When all warps have stored: the features that this block finished, for each k-block of the second GEMM
  // that they lie in. A barrier that can be given up, unlike those of the block.
  __device__ void post(Range features, int job) const {
    if (lane_ == 0) barrier_arrive(block_.stored());
    if (thread_ >= 32) return;
    wait_barrier(block_.stored(), job & 1, p_);
    int const k = features.begin / depth_block + lane_;
    int const count = min(features.end, (k + 1) * depth_block) - max(features.begin, k * depth_block);
    if (lane_ < 4 && count > 0) add_release<Scope::device>(p_.semaphores + k, static_cast<unsigned>(count));
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
