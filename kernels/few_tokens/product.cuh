// SPDX-License-Identifier: Apache-2.0
// Matrix times few columns as an operation with roles: each warp multiplies 16 rows of weights, the tokens
// are the columns of the matrix instruction.
#pragma once

#include <tessera/run/roles.cuh>
#include <tessera/sync.cuh>

#include "kernels/few_tokens/product.hpp"
#include "kernels/few_tokens/token_words.cuh"
#include "kernels/few_tokens/warp_multiply.cuh"
#include "kernels/skinny_mlp_sm90/activation.cuh"

namespace tessera::few_tokens {

/// The map of the copy that an iteration uses.
__device__ inline void const* map_of(void const* maps, int copies, long long iteration) {
  constexpr int bytes = 128;
  auto const copy = static_cast<unsigned>(iteration) % static_cast<unsigned>(copies);
  return static_cast<char const*>(maps) + copy * bytes;
}

/// For up to N tokens.
template <class Element, int N>
struct MatrixColumns {
  static constexpr bool has_roles = true;
  static constexpr int threads = 32 * k_warps;
  static constexpr int shared_bytes = exchange_bytes(N);
  using Arguments = Product;

  Product const* stages = nullptr;  ///< one for each stage of the body, in device memory
  TESSERA_HOST_DEVICE Product const* arguments(int stage) const { return stages + stage; }

  __device__ static void const* input_map(Product const& p, long long iteration) {
    int const older = (p.input_copies - p.input_distance % p.input_copies) % p.input_copies;
    return map_of(p.input_maps, p.input_copies, iteration + older);
  }

  template <class Loader>
  __device__ void load_early(Loader& loader) const {
    auto const& p = loader.template arguments<MatrixColumns>();
    void const* const map = map_of(p.weight_maps, p.weight_copies, loader.job->iteration);
    acquire_map(map);
    unsigned long long const policy = streaming_policy();
    int const depth = p.stage_depth, slots = p.slots();
    auto const bytes = static_cast<unsigned>(depth * p.box_rows * 128);
    auto const pitch = static_cast<unsigned>(p.slot_rows * 128);
    int const row = p.range(loader.job->tile).begin * p.rows_per_feature;
    for (int i = 0; i < slots; ++i) {
      RingSlot slot;
      if (!loader.take(bytes, slot)) continue;
      for (int b = 0; b < depth; ++b)
        load_box(slot.address + b * pitch, map, (i * depth + b) * depth_block, row, slot.barrier, policy);
    }
  }

  template <class Loader>
  __device__ void load_late(Loader& loader) const {
    auto const& p = loader.template arguments<MatrixColumns>();
    int const depth = p.stage_depth, chunks = p.slots();
    if constexpr (N == 8)
      // What was there before the launch has no words.
      if (p.input_words[0] != nullptr && loader.job->iteration >= p.input_distance) {
        auto const copy = static_cast<unsigned>(loader.job->iteration - p.input_distance) %
                          static_cast<unsigned>(p.input_copies);
        load_token_words(loader, p.input_words[copy], p.tokens, p.depth, depth, chunks,
                         loader.serial() - static_cast<unsigned>(p.input_distance));
        return;
      }
    if (loader.warp() > 0) {
      loader.pass(chunks);
      return;
    }
    void const* const map = input_map(p, loader.job->iteration);
    acquire_map(map);
    for (int k = 0; k < chunks * depth; k += depth) {
      if (p.producer_tiles > 0) {
        int const end = p.whole_input != 0 ? p.depth : min((k + depth) * depth_block, p.depth);
        if (!loader.wait_first(operand_a, parts_of_first(p.depth, p.producer_tiles, end), p.producer_tiles))
          return;
      }
      RingSlot slot;
      if (loader.take(static_cast<unsigned>(depth * N * 128), slot))
        load_box(slot.address, map, 0, 0, k, slot.barrier);
      __syncwarp();
    }
  }

  template <class Computer, class View>
  __device__ void compute(Computer& computer, View& view) const {
    auto const& p = computer.template arguments<MatrixColumns>();
    // Worked out while the activations are on their way.
    auto const copy = static_cast<unsigned>(computer.job->iteration) % static_cast<unsigned>(p.output_copies);
    Output const output{static_cast<Element*>(p.output[copy]), p.output_words[copy], computer.serial,
                        p.features};
    Range const range = p.range(computer.job->tile);
    Sums sums = {};
    multiply(p, computer, sums);
    bool const finishes = meet(p, computer, sums);
    if (view.record().stage.before_stores > 0) {
      if (threadIdx.x < 32 && !view.template wait_before_store<Group::warp>()) computer.stop();
      if (computer.anyone_stopped()) return;
    }
    if (!finishes) return;
    if (p.activation == Activation::swiglu)
      store_gated(p, output, range, sums);
    else
      store_plain(p, output, range, sums);
  }

 private:
  /// Where results go: plain, as words, or both.
  struct Output {
    Element* plain;
    unsigned* words;
    unsigned serial;
    int features;

    __device__ void store(int token, int feature, float value) const {
      auto const element = static_cast<Element>(value);
      long long const at = static_cast<long long>(token) * features + feature;
      if (words != nullptr)
        store_word(words + at, token_word(__builtin_bit_cast(unsigned short, element), serial));
      if (plain != nullptr) plain[at] = element;
    }
  };

  /// Of the warp's 16 rows, in tiles of 8 tokens.
  using Sums = float[N / 8][4];

  __device__ static int warp() { return static_cast<int>(threadIdx.x) / 32; }
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }

  // The sums over k, 16 elements at a time: group g of the depth takes steps g, g + groups, ... of each slot.
  template <class Computer>
  __device__ static void multiply(Product const& p, Computer& computer, Sums& sums) {
    int const slots = p.slots(), steps = 4 * p.stage_depth, pitch = p.slot_rows * 128;
    int const groups = p.depth_groups(), group = warp() / p.row_warps();
    // Rows of 128 bytes in patterns of 8, in which 16 bytes lie at their number xor the row's.
    int const row = warp() % p.row_warps() * 16 + lane() % 16, half = lane() / 16;
    int const token = N == 8 ? lane() % 8 : lane() % 8 + lane() / 16 * 8, token_half = lane() / 8 % 2;
    Sums other = {};  // every other step's: the next matrix instruction does not wait for the one before
#pragma unroll 1
    for (int i = 0; i < slots; ++i) {
      RingPlace const late = computer.next_late_slot(), place = computer.next_slot();
      computer.wait_late_slot(late);
      computer.wait_slot(place);
      unsigned const weights = computer.slot(place) + row * 128,
                     tokens = computer.late_slot(late) + token * 128;
      auto const step = [&](int s, Sums& to) {
        unsigned a[4];
        load_matrices(a, weights + s / 4 * pitch + ((s % 4 * 2 + half) ^ (row & 7)) * 16);
#pragma unroll
        for (int n = 0; n < (N + 15) / 16; ++n) {
          unsigned b[4];
          load_matrices(
              b, tokens + s / 4 * (N * 128) + n * 2048 + ((s % 4 * 2 + token_half) ^ (token & 7)) * 16);
          multiply_warp<Element>(to[2 * n], a, b[0], b[1]);
          if constexpr (N > 8) multiply_warp<Element>(to[2 * n + 1], a, b[2], b[3]);
        }
      };
      if (group < groups) {
        int s = group;
#pragma unroll 2
        for (; s + groups < steps; s += 2 * groups) {
          step(s, sums);
          step(s + groups, other);
        }
        if (s < steps) step(s, sums);
      }
      computer.release_slot(place);
      computer.release_late_slot(late);
    }
#pragma unroll
    for (int n = 0; n < N / 8; ++n)
#pragma unroll
      for (int j = 0; j < 4; ++j) sums[n][j] += other[n][j];
  }

  // Adds up what groups of the depth have; the first group's warps get all. True for them.
  template <class Computer>
  __device__ static bool meet(Product const& p, Computer const& computer, Sums& sums) {
    int const groups = p.depth_groups(), rows = p.row_warps(), group = warp() / rows;
    if (groups > 1) {
      auto* const room = reinterpret_cast<float*>(computer.scratch) + lane();
      auto const at = [&](int g, int value) {
        return ((g - 1) * rows + warp() % rows) * (N / 2 * 32) + value * 32;
      };
      if (group > 0 && group < groups)
#pragma unroll
        for (int n = 0; n < N / 8; ++n)
#pragma unroll
          for (int j = 0; j < 4; ++j) room[at(group, 4 * n + j)] = sums[n][j];
      computer.sync();
      if (group == 0)
        for (int g = 1; g < groups; ++g)
#pragma unroll
          for (int n = 0; n < N / 8; ++n)
#pragma unroll
            for (int j = 0; j < 4; ++j) sums[n][j] += room[at(g, 4 * n + j)];
    }
    return group == 0;
  }

  /// Of the first of the thread's two rows within a tile; the second is 8 below.
  __device__ static int own_row() { return warp() * 16 + lane() / 4; }

  __device__ static void store_plain(Product const& p, Output const& output, Range range, Sums const& sums) {
    bool const gelu = p.activation == Activation::gelu;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      int const feature = range.begin + own_row() + 8 * half;
      if (feature >= range.end) continue;
#pragma unroll
      for (int n = 0; n < N / 8; ++n)
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          int const token = 8 * n + lane() % 4 * 2 + j;
          float const sum = sums[n][2 * half + j];
          if (token < p.tokens) output.store(token, feature, gelu ? skinny_sm90::gelu(sum) : sum);
        }
    }
  }

  // Gate and up are neighbouring rows, in lanes that are 4 apart. Of each pair of tokens the gate's lane
  // finishes the first and the up's lane the second.
  __device__ static void store_gated(Product const& p, Output const& output, Range range, Sums const& sums) {
    bool const up_lane = lane() / 4 % 2 != 0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      int const feature = range.begin + (own_row() + 8 * half) / 2;
#pragma unroll
      for (int n = 0; n < N / 8; ++n) {
        float const first = sums[n][2 * half], second = sums[n][2 * half + 1];
        float const other = __shfl_xor_sync(~0u, up_lane ? first : second, 4);
        float const value = up_lane ? skinny_sm90::silu(other) * second : skinny_sm90::silu(first) * other;
        int const token = 8 * n + lane() % 4 * 2 + (up_lane ? 1 : 0);
        if (feature < range.end && token < p.tokens) output.store(token, feature, value);
      }
    }
  }
};

}  // namespace tessera::few_tokens
