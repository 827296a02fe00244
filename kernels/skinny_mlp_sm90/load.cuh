// SPDX-License-Identifier: Apache-2.0
// The warps that load. Weights have no producer: their warps run ahead as far as the ring goes, over the end
// of the first GEMM and over the start of the launch. Activations wait for the kernels before and for
// semaphores.
#pragma once

#include <tessera/sync/launch.cuh>

#include "block.cuh"

namespace tessera::skinny_sm90 {

constexpr int weight_warps = producer_warps - 1;

/// Slots are dealt to the warps in turns. One thread of each of `weight_warps` warps calls. False after a
/// stall.
__device__ inline void load_weights(Parameters const& p, Block const& block, int warp) {
  unsigned long long const policy = streaming_policy();
  Position slot{0, 1};  // parity 1 of a fresh barrier has ended: every slot is empty
  int turn = 0;
  for (int job = 0; job < p.first.waves + p.second.waves; ++job) {
    bool const second = job >= p.first.waves;
    Cut const& cut = second ? p.second : p.first;
    CUtensorMap const& map = second ? p.second_weights : p.first_weights;
    int const wave = second ? job - p.first.waves : job;
    Range const range = block.stages(cut);
    int const depth = cut.stage_depth;
    unsigned const bytes = static_cast<unsigned>(depth * cut.box_rows * 128);
    unsigned const pitch = static_cast<unsigned>(cut.slot_rows * 128);
    for (int i = 0; i < range.size(); ++i) {
      int const k = block.stage(p, range, i) * depth;
      for (int tile = 0; tile < cut.tiles; ++tile) {
        if (turn == warp) {
          wait_barrier(block.empty(slot.index), slot.parity, p.watch.record);
          int const row = cut.unit(wave, p.clusters, block.cluster, tile).begin * cut.rows_per_feature;
          unsigned const barrier = block.full(slot.index);
          unsigned const to = block.slot(p, slot.index);
          barrier_expect(barrier, bytes);
          for (int b = 0; b < depth; ++b)
            load_box(to + b * pitch, map, (k + b) * depth_block, row, barrier, policy);
        }
        slot.next(p.slots);
        if (++turn == weight_warps) turn = 0;
      }
    }
  }
}

/// Waits for the k-blocks of stages of the second GEMM. All lanes of one warp call.
class HiddenFeatures {
 public:
  __device__ HiddenFeatures(Parameters const& p, unsigned long long launches)
      : p_(p), parts_(static_cast<unsigned>(launches + 1) * parts_of_feature) {}

  /// Comes back when the k-blocks of the stage are complete in memory.
  __device__ void wait(int stage) const {
    Cut const& cut = p_.second;
    int const lane = static_cast<int>(threadIdx.x % 32);
    int const end = min((stage + 1) * cut.stage_depth, cut.depth_blocks());
    for (int k = stage * cut.stage_depth; k < end; k += 32) wait_block(k + lane < end ? k + lane : -1);
    fence_proxy_async();
    __syncwarp();
  }

 private:
  // -1: none.
  __device__ void wait_block(int k) const {
    unsigned const expected =
        parts_ * static_cast<unsigned>(min(depth_block, p_.second.depth - k * depth_block));
    auto patience = p_.watch.begin();
    for (;;) {
      unsigned const seen = k < 0 ? expected : load_acquire<Scope::device>(p_.semaphores + k);
      bool const ready = reached(seen, expected);
      if (__all_sync(~0u, ready)) return;
      bool const go_on =
          ready || p_.watch.go_on(patience, {p_.stage, static_cast<int>(blockIdx.x), k}, seen, expected);
      if (__any_sync(~0u, !go_on)) leave_after_stall();
    }
  }

  Parameters const& p_;
  unsigned parts_;
};

/// All lanes of one warp call.
__device__ inline void load_activations(Parameters const& p, Block const& block, int token_tile) {
  bool const leader = threadIdx.x % 32 == 0;
  pdl_wait();
  HiddenFeatures const hidden(p, load_counter(p.launches));
  Position stage{0, 1};
  for (int job = 0; job < p.first.waves + p.second.waves; ++job) {
    bool const second = job >= p.first.waves;
    Cut const& cut = second ? p.second : p.first;
    CUtensorMap const& map = second ? p.hidden : p.input;
    bool const whole = second ? p.second_whole : p.first_whole;
    Range const range = block.stages(cut);
    unsigned const block_bytes = static_cast<unsigned>(token_tile * 128);
    // The exchange of the job before lies over the ring of activations.
    if (block.ranks > 1 && job > 0) wait_barrier(block.exchange_over(), (job - 1) & 1, p.watch.record);
    for (int i = 0; i < range.size(); ++i) {
      int const k = block.stage(p, range, i);
      if (job == p.first.waves) hidden.wait(k);
      if (leader) {
        wait_barrier(block.activations_empty(stage.index), stage.parity, p.watch.record);
        unsigned const barrier = block.activations_full(stage.index);
        unsigned const to = block.activations(p, stage.index);
        barrier_expect(barrier, cut.stage_depth * block_bytes);
        if (whole)
          load_box(to, map, 0, 0, k * cut.stage_depth, barrier);
        else
          for (int b = 0; b < cut.stage_depth; ++b)
            load_box(to + b * block_bytes, map, (k * cut.stage_depth + b) * depth_block, 0, 0, barrier);
      }
      __syncwarp();
      stage.next(p.activation_stages);
    }
  }
}

}  // namespace tessera::skinny_sm90
