// SPDX-License-Identifier: Apache-2.0
// The warps that load. Weights have no producer: their warps run ahead as far as the ring goes, over the end
// of the first GEMM and over the start of the launch. Activations wait for the kernels before and for
// semaphores.
#pragma once

#include <tessera/sync/launch.cuh>

#include "block.cuh"

namespace tessera::skinny_sm90 {

/// Slots are dealt to the warps in turns. One thread of each of `weight_warps` warps calls. False after a
/// stall.
__device__ inline void load_weights(Parameters const& p, Block const& block, int warp) {
  unsigned long long const policy = streaming_policy();
  RingPlace slot{0, 1};  // parity 1 of a fresh barrier has ended: every slot is empty
  int turn = 0;
  for (int job = 0; job < p.first.waves + p.second.waves; ++job) {
    bool const second = job >= p.first.waves;
    Cut const& cut = second ? p.second : p.first;
    CUtensorMap const& map = second ? p.second_weights : p.first_weights;
    int const wave = second ? job - p.first.waves : job;
    int const depth = cut.stage_depth;
    unsigned const bytes = static_cast<unsigned>(depth * cut.box_rows * 128);
    unsigned const pitch = static_cast<unsigned>(cut.slot_rows * 128);
    int const begin = block.first_depth_block(cut);
    for (int k = 0; k < cut.part_blocks; k += depth) {
      for (int tile = 0; tile < cut.tiles; ++tile) {
        if (turn == warp) {
          wait_barrier(block.empty(slot.index), slot.parity, p);
          int const row = block.unit(cut, wave, tile).begin * cut.rows_per_feature;
          unsigned const barrier = block.full(slot.index);
          unsigned const to = block.slot(p, slot.index);
          barrier_expect(barrier, bytes);
          for (int b = 0; b < depth; ++b)
            load_box(to + b * pitch, &map, (begin + k + b) * depth_block, row, barrier, policy);
        }
        slot.next(p.slots);
        if (++turn == weight_warps) turn = 0;
      }
    }
  }
}

/// Waits for the hidden features that the second GEMM sums over, in their order. All lanes of one warp call.
class HiddenFeatures {
 public:
  __device__ HiddenFeatures(Parameters const& p, unsigned long long launches, int begin)
      : p_(p), posts_(static_cast<unsigned>(launches + 1)), ready_(begin) {}

  /// Comes back when the k-blocks of `begin` to `end` are complete in memory. Looks at 32 at once, so that
  /// most calls find that they are.
  __device__ void wait(int end) {
    end = min(end, p_.second.depth_blocks());
    if (ready_ >= end) return;
    auto patience = p_.watch.begin();
    for (;;) {
      int const k = ready_ + static_cast<int>(threadIdx.x % 32);
      int const features = min(depth_block, p_.second.depth - k * depth_block);
      unsigned const expected = posts_ * static_cast<unsigned>(features);
      unsigned const seen = features > 0 ? load_acquire<Scope::device>(p_.semaphores + k) : expected;
      unsigned const late = __ballot_sync(~0u, !reached(seen, expected));
      ready_ += late == 0 ? 32 : __ffs(late) - 1;
      if (ready_ >= end) break;
      // The first that is late asks whether to go on.
      bool const go_on =
          k != ready_ ||
          p_.watch.go_on(patience, WaitPlace{p_.stage, static_cast<int>(blockIdx.x), k}, seen, expected);
      if (!__all_sync(~0u, go_on)) leave_after_stall();
    }
    fence_proxy_async();
    __syncwarp();
  }

 private:
  Parameters const& p_;
  unsigned posts_;
  int ready_;
};

/// All tokens, this block's part of the depth. All lanes of one warp call. Between two products partial sums
/// may lie in the ring.
template <bool Partials>
__device__ void load_activations(Parameters const& p, Block const& block) {
  int const depth = p.activation_depth;
  unsigned const block_bytes = static_cast<unsigned>(p.activation_rows * 128);
  bool const leader = threadIdx.x % 32 == 0;
  pdl_wait();
  HiddenFeatures hidden(p, load_counter(p.launches), block.first_depth_block(p.second));
  RingPlace stage{0, 1};
  for (int job = 0; job < p.first.waves + p.second.waves; ++job) {
    bool const second = job >= p.first.waves;
    Cut const& cut = second ? p.second : p.first;
    CUtensorMap const& map = second ? p.hidden : p.input;
    bool const whole = second ? p.second_whole : p.first_whole;
    int const begin = block.first_depth_block(cut);
    int const end = begin + cut.part_blocks;
    bool const exchanged = job > 0 && (job > p.first.waves ? p.second.split : p.first.split) > 1;
    if (Partials && exchanged && leader) wait_barrier(block.partials_read(), (job - 1) & 1, p);
    __syncwarp();
    for (int k = begin; k < end; k += depth) {
      if (second) hidden.wait(min(k + depth, end));
      if (leader) {
        wait_barrier(block.activations_empty(stage.index), stage.parity, p);
        unsigned const barrier = block.activations_full(stage.index);
        unsigned const to = block.activations(p, stage.index);
        barrier_expect(barrier, static_cast<unsigned>(p.activation_bytes));
        // One load for all where that can be: a thread issues one every 300 cycles or more.
        if (whole)
          load_box(to, &map, 0, 0, k, barrier);
        else
          for (int b = 0; b < depth; ++b)
            load_box(to + b * block_bytes, &map, (k + b) * depth_block, 0, 0, barrier);
      }
      __syncwarp();
      stage.next(p.activation_stages);
    }
  }
}

}  // namespace tessera::skinny_sm90
