// SPDX-License-Identifier: Apache-2.0
// The warpgroups that multiply for 33 to 128 tokens, in pairs of blocks: each block multiplies twice the rows
// over half of the depth, so that half as many bytes of activations enter it. A warpgroup has 64 tokens as
// rows; the rows of weights are the columns. Then the blocks exchange partial sums through distributed shared
// memory, and each finishes half of the columns. The second GEMM may go without: each block with rows of its
// own over all of the depth, and nothing to exchange when there is nothing left to do meanwhile.
#pragma once

#include <tessera/sync/launch.cuh>

#include "activation.cuh"
#include "block.cuh"
#include "multiply_wide.cuh"

namespace tessera::skinny_sm90 {

template <class Element, int Warpgroups>
class PairComputer {
 public:
  static constexpr int warps = 4 * Warpgroups;
  static constexpr int split = 2;
  /// For want of room: in that of activations, which has nothing on its way while hidden features are made,
  /// and behind the last job in that of weights.
  static constexpr bool partials_in_rings = Warpgroups > 1;

  __device__ PairComputer(Parameters const& p, Block const& block)
      : p_(p),
        block_(block),
        thread_(static_cast<int>(threadIdx.x)),
        lane_(static_cast<int>(threadIdx.x % 32)),
        warpgroup_(__shfl_sync(~0u, static_cast<int>(threadIdx.x / 128), 0)),
        other_(static_cast<unsigned>(1 - block.rank)) {}

  __device__ void run() {
    int const jobs = p_.first.waves + p_.second.waves;
    for (int job = 0; job < jobs; ++job) {
      bool const second = job >= p_.first.waves;
      Job const one{second ? p_.second : p_.first,
                    second,
                    second ? job - p_.first.waves : job,
                    job,
                    job == jobs - 1,
                    job == (p_.second.split > 1 ? jobs : p_.first.waves) - 1};
      do_job<64>(one, pair_columns(one.cut.box_rows));
    }
  }

 private:
  struct Job {
    Cut const& cut;
    bool second;
    int wave;
    int number;
    bool last;
    bool last_exchange;
  };

  /// With the columns that there are, from `Columns` on.
  template <int Columns>
  __device__ void do_job(Job const& job, int columns) {
    if constexpr (Columns < most_pair_rows) {
      if (columns > Columns) {
        do_job<pair_columns(Columns + 1)>(job, columns);
        return;
      }
    }
    do_job<Columns>(job);
  }

  template <int Columns>
  __device__ void do_job(Job const& job) {
    constexpr int own_sums = Columns / 4;
    float own[own_sums];
    Range const unit = block_.unit(job.cut, job.wave, 0);
    {
      float sums[Columns / 2];
#pragma unroll
      for (int i = 0; i < Columns / 2; ++i) sums[i] = 0;
      if (job.cut.stage_depth == 1 || p_.activation_depth == 1)
        multiply<Columns, 1>(job.cut, sums);
      else
        multiply<Columns, 2>(job.cut, sums);
      if (__any_sync(~0u, stalled_)) leave_after_stall();
      if (job.cut.split == 1) {  // only the second GEMM
        store<Columns / 2>(p_.y, job.cut.features, unit, sums, [](float x) { return x; });
        return;
      }
      exchange<Columns>(job, sums, own);
    }
    int const rows = job.cut.rows_per_feature;
    Range const own_rows{unit.begin * rows + block_.rank * (Columns / 2), unit.end * rows};
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
      post({own_rows.begin / rows, min(own_rows.begin / rows + Columns / 2 / rows, unit.end)}, job.number);
    }
    if (!job.last_exchange || (partials_in_rings && !job.last)) give_back_partials();
  }

  // The sums over this block's part of k, `Depth` k-blocks at a time. What the next needs is worked out, and
  // looked whether it is there, while the tensor cores are busy. No way out of the loop: matrix instructions
  // in flight where threads may part would be made to wait for each other. After a stall it goes through the
  // motions.
  template <int Columns, int Depth>
  __device__ void multiply(Cut const& cut, float (&sums)[Columns / 2]) {
    int const weights_pitch = kept(cut.slot_rows * 128);
    int const part_blocks = kept(cut.part_blocks);
    int const stage_depth = kept(cut.stage_depth);
    int const activations_pitch = kept(p_.activation_rows * 128);
    int const warpgroup_place = kept(warpgroup_ * p_.warpgroup_tokens * 128);
    int in_slot = 0;  // k-blocks of it that are done
    int in_stage = 0;
    unsigned slot = 0;
    unsigned stage = 0;
    bool there = false;
    auto look = [&] {
      slot = block_.slot(p_, slot_.index) + in_slot * weights_pitch;
      stage = block_.activations(p_, stage_.index) + in_stage * activations_pitch + warpgroup_place;
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
      unsigned activations[Depth];
#pragma unroll
      for (int d = 0; d < Depth; ++d) activations[d] = operand_place(stage + d * activations_pitch);
      multiply_fence();
#pragma unroll
      for (int d = 0; d < Depth; ++d)
#pragma unroll
        for (int step = 0; step < 4; ++step)
          Multiply<Element, Columns>::run(sums, operand(activations[d] + 2 * step),
                                          operand(weights[d] + 2 * step));
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
    settle(sums);
  }

  // Sends the other block its half of the columns, thread to thread, and adds what it sends to this block's
  // half. The other may send when this one has read what it got before; into a ring when this one has
  // multiplied.
  template <int Columns>
  __device__ void exchange(Job const& job, float const (&sums)[Columns / 2], float (&own)[Columns / 4]) {
    constexpr int half = Columns / 4;
    constexpr unsigned threads = warps * 32;
    unsigned const area = (!partials_in_rings ? block_.partials(p_)
                           : job.last         ? block_.slot(p_, 0)
                                              : block_.activations(p_, 0)) +
                          thread_ * 16;
    if (thread_ == 0) barrier_expect(block_.partials_full(), half * 4 * threads);
    if (partials_in_rings && lane_ == 0)
      barrier_arrive_remote_relaxed(in_block(block_.partials_open(), other_));
    int const opened = partials_in_rings ? job.number : job.number - 1;
    if (opened >= 0) wait_barrier<true>(block_.partials_open(), opened & 1, p_);
    unsigned const to = in_block(area, other_);
    unsigned const barrier = in_block(block_.partials_full(), other_);
    bool const front = block_.rank == 0;
#pragma unroll
    for (int i = 0; i < half; i += 4) {
      float sent[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        sent[j] = front ? sums[half + i + j] : sums[i + j];
        own[i + j] = front ? sums[i + j] : sums[half + i + j];
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
  }

  /// This warp has done with the room for partial sums. Only what comes behind the next product needs it, so
  /// it is told when features are stored and posted: the fence takes a while.
  __device__ void give_back_partials() const {
    if constexpr (partials_in_rings) {
      fence_proxy_async();  // the copy engine writes there next
      __syncwarp();
      if (lane_ == 0) barrier_arrive(block_.partials_read());
    } else {
      __syncwarp();
      if (lane_ == 0) barrier_arrive_remote(in_block(block_.partials_open(), other_));
    }
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

  /// Of the operand's 64 rows only the warpgroup's tokens count.
  __device__ bool has_token(int row) const {
    return row < p_.warpgroup_tokens && warpgroup_ * p_.warpgroup_tokens + row < p_.tokens;
  }
  /// The first of the thread's two; the second is 8 below.
  __device__ int own_row() const { return thread_ / 32 % 4 * 16 + lane_ / 4; }

  static __device__ unsigned pack(float first, float second) {
    struct alignas(4) Two {
      Element first, second;
    } const two{static_cast<Element>(first), static_cast<Element>(second)};
    unsigned bits;
    memcpy(&bits, &two, sizeof bits);
    return bits;
  }

  // A thread has two neighbours of every 8 columns. Of two times 8 each takes four of its and the next
  // lane's: stores of pieces of sectors are as long on their way as stores of whole ones. Units begin and end
  // at even features.
  template <int Count, class Function>
  __device__ void store(void* matrix, int features, Range rows, float const (&sums)[Count],
                        Function finish) const {
    bool const fours = rows.begin % 4 == 0;
    int const odd = lane_ % 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      int const row = own_row() + 8 * half;
      bool const there = has_token(row);
      int const token = warpgroup_ * p_.warpgroup_tokens + row;
      Element* const to = static_cast<Element*>(matrix) + static_cast<long long>(token) * features;
#pragma unroll
      for (int j = 0; j < Count / 4; j += 2) {
        unsigned twos[2];
#pragma unroll
        for (int i = 0; i < 2; ++i)
          twos[i] = pack(finish(sums[4 * (j + i) + 2 * half]), finish(sums[4 * (j + i) + 2 * half + 1]));
        if (fours) {
          unsigned const got = __shfl_xor_sync(~0u, odd != 0 ? twos[0] : twos[1], 1);
          uint2 const four{odd != 0 ? got : twos[0], odd != 0 ? twos[1] : got};
          int const feature = rows.begin + 8 * (j + odd) + lane_ % 4 / 2 * 4;
          if (there && feature + 4 <= rows.end)
            *reinterpret_cast<uint2*>(to + feature) = four;
          else if (there && feature < rows.end)
            *reinterpret_cast<unsigned*>(to + feature) = four.x;
        } else {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            int const feature = rows.begin + 8 * (j + i) + lane_ % 4 * 2;
            if (there && feature < rows.end) *reinterpret_cast<unsigned*>(to + feature) = twos[i];
          }
        }
      }
    }
  }

  // Gate and up are neighbours, so a thread has one feature of every 8 columns, and stores two.
  template <int Count>
  __device__ void store_gated(int features, Range rows, float const (&sums)[Count]) const {
    int const odd = lane_ % 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      int const row = own_row() + 8 * half;
      bool const there = has_token(row);
      int const token = warpgroup_ * p_.warpgroup_tokens + row;
      Element* const to = static_cast<Element*>(p_.h) + static_cast<long long>(token) * features;
      auto gated = [&](int i) { return silu(sums[4 * i + 2 * half]) * sums[4 * i + 2 * half + 1]; };
#pragma unroll
      for (int j = 0; j < Count / 4; j += 2) {
        unsigned const own = pack(gated(j), gated(j + 1));
        unsigned const got = __shfl_xor_sync(~0u, own, 1);
        unsigned const two = odd != 0 ? __byte_perm(got, own, 0x7632) : __byte_perm(own, got, 0x5410);
        int const feature = rows.begin / 2 + 4 * (j + odd) + lane_ % 4 / 2 * 2;
        if (there && 2 * feature < rows.end) *reinterpret_cast<unsigned*>(to + feature) = two;
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
  unsigned other_;  ///< block of the pair, in the cluster
  RingPlace slot_;
  RingPlace stage_;
  bool stalled_ = false;
};

}  // namespace tessera::skinny_sm90
