// SPDX-License-Identifier: Apache-2.0
// Attention of new tokens over cached ones as an operation with roles: keys and values of earlier tokens are
// loaded early, since no stage of the launch writes them; queries, the new key and the new value are late.
#pragma once

#include <tessera/run/roles.cuh>
#include <tessera/sync.cuh>

#include "kernels/decode/attention.hpp"
#include "kernels/decode/attention_warp.cuh"
#include "kernels/decode/cache_pages.cuh"
#include "kernels/decode/join_parts.cuh"
#include "kernels/decode/join_words.cuh"
#include "kernels/decode/load_positions.cuh"
#include "kernels/few_tokens/direct_input.cuh"
#include "kernels/few_tokens/product.hpp"

namespace tessera::decode {

/// bf16 or fp16; heads of 64, 96 or 128. `Extras`: queries and keys may be normed, a token may see no more
/// than a window, and the cache may have pages. `Words`: what comes, what goes and what parts send to one
/// another is words that carry the iteration.
template <class Element, int HeadSize, bool Extras = false, bool Words = false>
struct CachedAttention {
  static constexpr bool has_roles = true;
  static constexpr int threads = 32 * k_attention_warps;
  static constexpr int loader_registers = 56;
  using Arguments = AttentionArguments;

  /// One for each stage of the body, in device memory.
  AttentionArguments const* stages = nullptr;
  TESSERA_HOST_DEVICE AttentionArguments const* arguments(int stage) const { return stages + stage; }

  template <class Loader>
  __device__ void load_early(Loader& loader) const {
    auto const& a = loader.template arguments<CachedAttention>();
    auto const tile = attention_tile(loader.job->tile, a.kv_heads, a.splits);
    auto const past = past_of(a, a.cached[tile.sequence], tile.split, loader.job->iteration);
    if constexpr (Extras)
      if (a.pages.table != nullptr) {
        long long const layer = layer_of(a, loader.job->iteration) * a.layer_elements;
        load_pages<HeadSize>(loader, a.pages, tile.sequence, a.kv_heads, tile.head,
                             static_cast<Element const*>(a.keys) + layer,
                             static_cast<Element const*>(a.values) + layer, past, a.slot_positions);
        return;
      }
    long long const row = first_row(a, tile, loader.job->iteration);
    load_positions<row_bytes>(loader, static_cast<Element const*>(a.keys) + row,
                              static_cast<Element const*>(a.values) + row, past, a.slot_positions);
  }

  template <class Loader>
  __device__ void load_late(Loader& loader) const {
    auto const& a = loader.template arguments<CachedAttention>();
    if constexpr (Words) return;
    if (loader.warp() > 0) {
      loader.pass(1);
      return;
    }
    auto const tile = attention_tile(loader.job->tile, a.kv_heads, a.splits);
    int const of_head = (a.group + 2) * HeadSize;
    if (a.qkv_tiles > 0) {
      int const end = few_tokens::parts_of_first(a.row(HeadSize), a.qkv_tiles, (tile.head + 1) * of_head);
      if (!loader.wait_first(operand_a, end, a.qkv_tiles)) return;
    }
    auto const bytes = static_cast<unsigned>(of_head * static_cast<int>(sizeof(Element)));
    RingSlot slot;
    if (loader.take(bytes, slot))
      load_bulk(slot.address,
                static_cast<Element const*>(a.qkv) + static_cast<long long>(tile.sequence) * a.row(HeadSize) +
                    tile.head * of_head,
                bytes, slot.barrier);
    __syncwarp();
  }

  template <class Computer, class View>
  __device__ void compute(Computer& computer, View& view) const {
    auto const& a = computer.template arguments<CachedAttention>();
    auto const tile = attention_tile(computer.job->tile, a.kv_heads, a.splits);
    int const cached = a.cached[tile.sequence];
    auto const past = past_of(a, cached, tile.split, computer.job->iteration);
    int const first = Extras ? first_seen(cached, window_of(a, computer.job->iteration)) : 0;
    bool const newest = tile.split == a.splits - 1;
    int const warp = static_cast<int>(threadIdx.x) / 32;
    auto const note = [&](auto which) { few_tokens::note_time(a.times, a.tiles(), computer.job, which); };
    note(&few_tokens::TileTimes::begun);
    // Worked out while the queries are on their way.
    typename Warp::Turns turns;
    Warp::load_turns(a.turns + static_cast<long long>(cached) * (HeadSize / 2), turns);
    typename Warp::Fragment gains;
    if (has_norms(a)) {
      Warp::load_gains(gains_of(a, computer.job->iteration), gains);
      if (newest) prefetch_gains(gains_of(a, computer.job->iteration) + HeadSize);
    }

    Warp state(a.scale);
    RingPlace late;
    unsigned queries = 0;
    if constexpr (Words) {
      queries = fetch_queries(a, tile, computer, newest);
    } else {
      late = computer.next_late_slot();
      computer.wait_late_slot(late);
      queries = computer.late_slot(late);
    }
    note(&few_tokens::TileTimes::fed);
    unsigned const key = queries + a.group * row_bytes;
    load_vector(a, Warp::query_address(queries, a.group), gains, turns, state.queries[0]);
    if (newest && (warp == 0 || warp == k_attention_warps - 1)) {
      typename Warp::Fragment turned;
      if (has_norms(a)) Warp::load_gains(gains_of(a, computer.job->iteration) + HeadSize, gains);
      load_vector(a, key, gains, turns, turned);
      if (warp == 0)
        state.begin_with(turned, key + row_bytes);
      else
        store_newest(a, tile, computer.job->iteration, cached, turned, key + row_bytes);
    }
    if constexpr (!Words) computer.release_late_slot(late);

    for (int from = past.begin; from < past.end; from += a.slot_positions) {
      RingPlace const place = computer.next_slot();
      computer.wait_slot(place);
      int const count = min(a.slot_positions, past.end - from);
      unsigned const keys = computer.slot(place), values = keys + a.slot_positions * row_bytes;
      for (int block = warp * k_position_block; block < count; block += k_attention_warps * k_position_block)
        add_block(a, state, keys + block * row_bytes, values + block * row_bytes, count - block,
                  first - from - block);
      computer.release_slot(place);
    }
    computer.done_reading();
    note(&few_tokens::TileTimes::read);
    if (view.record().stage.before_stores > 0) {
      if (threadIdx.x < 32 && !view.template wait_before_store<Group::warp>()) computer.stop();
      if (computer.anyone_stopped()) return;
    }
    join_warps(a, tile, computer, state);
    note(&few_tokens::TileTimes::stored);
  }

 private:
  using Warp = AttentionWarp<Element, HeadSize>;
  static constexpr int row_bytes = HeadSize * static_cast<int>(sizeof(Element));

  __device__ static unsigned layer_of(AttentionArguments const& a, long long iteration) {
    return static_cast<unsigned>(iteration) % static_cast<unsigned>(a.layers);
  }

  /// Of the iteration's layer.
  __device__ static int window_of(AttentionArguments const& a, long long iteration) {
    return static_cast<int>(layer_of(a, iteration)) >= a.window_from ? a.window : 0;
  }
  __device__ static Positions past_of(AttentionArguments const& a, int cached, int split,
                                      long long iteration) {
    if constexpr (Extras)
      return positions_from(first_seen(cached, window_of(a, iteration)), cached, a.splits, split);
    return positions_of(cached, a.splits, split);
  }
  /// `unseen`: so many of the first rows are outside of the window.
  __device__ static void add_block(AttentionArguments const& a, Warp& state, unsigned keys, unsigned values,
                                   int count, int unseen) {
    if constexpr (Extras) {
      int const seen[1] = {count}, outside[1] = {unseen};
      state.template add_block<true>(keys, values, count, seen, outside);
    } else {
      state.add_block(keys, values, count);
    }
  }

  __device__ static bool has_norms(AttentionArguments const& a) { return Extras && a.head_gains != nullptr; }
  /// Those of queries, and behind them those of keys.
  __device__ static Element const* gains_of(AttentionArguments const& a, long long iteration) {
    return static_cast<Element const*>(a.head_gains) + 2 * HeadSize * layer_of(a, iteration);
  }
  /// To the L1: there are no registers for both.
  __device__ static void prefetch_gains(Element const* gains) {
    constexpr int line = 128 / static_cast<int>(sizeof(Element));
    if (Warp::lane() < HeadSize / line)
      asm volatile("prefetch.global.L1 [%0];" ::"l"(gains + Warp::lane() * line));
  }
  /// A query or key in shared memory, as scores are made of it.
  __device__ static void load_vector(AttentionArguments const& a, unsigned address,
                                     typename Warp::Fragment const& gains, typename Warp::Turns const& turns,
                                     typename Warp::Fragment& to) {
    if (has_norms(a))
      Warp::load_normed(address, gains, a.norm_epsilon, turns, to);
    else
      Warp::load_turned(address, turns, to);
  }

  /// Words of a tile's queries, and of the new key and value where it attends to them, in shared memory.
  template <class Computer>
  __device__ static unsigned fetch_queries(AttentionArguments const& a, AttentionTile const& tile,
                                           Computer& computer, bool newest) {
    unsigned const to = shared_address(computer.scratch) + attention_queries_at(a.group, HeadSize);
    int const of_head = (a.group + 2) * HeadSize;
    auto const* const words =
        a.qkv_words + static_cast<long long>(tile.sequence) * a.row(HeadSize) + tile.head * of_head;
    few_tokens::fetch_words(
        computer, words, newest ? of_head : a.group * HeadSize, computer.serial,
        [to](int first, uint4 const& four) { few_tokens::store_elements(to + 2 * first, four); });
    if (computer.anyone_stopped()) computer.stop();
    return to;
  }

  /// Of position 0.
  __device__ static long long first_row(AttentionArguments const& a, AttentionTile const& tile,
                                        long long iteration) {
    return layer_of(a, iteration) * a.layer_elements +
           static_cast<long long>(tile.sequence * a.kv_heads + tile.head) * a.capacity * HeadSize;
  }

  /// Of the new token; below 0: it has no place.
  __device__ static long long newest_row(AttentionArguments const& a, AttentionTile const& tile,
                                         long long iteration, int position) {
    if constexpr (Extras)
      if (a.pages.table != nullptr) {
        int const page = page_of(a.pages, tile.sequence, position);
        return page < 0 ? -1
                        : layer_of(a, iteration) * a.layer_elements +
                              row_of_page<HeadSize>(a.pages, page, a.kv_heads, tile.head, position);
      }
    return first_row(a, tile, iteration) + static_cast<long long>(position) * HeadSize;
  }

  /// One warp stores the turned key, and the value as it came.
  __device__ static void store_newest(AttentionArguments const& a, AttentionTile const& tile,
                                      long long iteration, int position,
                                      typename Warp::Fragment const& turned, unsigned value) {
    long long const row = newest_row(a, tile, iteration, position);
    if (Extras && row < 0) return;
    auto* const keys = static_cast<Element*>(a.keys) + row;
    auto* const values = static_cast<Element*>(a.values) + row;
    int const lane = static_cast<int>(threadIdx.x % 32);
    // All query heads' lanes have the same: each stores some of it.
#pragma unroll
    for (int i = 0; i < HeadSize / 8; ++i)
      if (lane / 4 == i % 8)
        *reinterpret_cast<unsigned*>(keys + place_in_row(position, 8 * i + lane % 4 * 2, HeadSize)) =
            turned[i / 2][i % 2];
    for (int d = 2 * lane; d < HeadSize; d += 64)
      *reinterpret_cast<unsigned*>(values + place_in_row(position, d, HeadSize)) = load_shared(value + 2 * d);
  }

  /// Sums of all warps meet in shared memory, then those of all parts in device memory.
  template <class Computer>
  __device__ static void join_warps(AttentionArguments const& a, AttentionTile const& tile,
                                    Computer& computer, Warp& state) {
    auto* const sums = reinterpret_cast<float*>(computer.scratch);
    auto* const weights = store_sums<k_attention_warps>(state, a.group, sums);
    computer.sync();
    if constexpr (Words)
      join_words<Element, HeadSize>(a, tile, computer, sums, weights);
    else
      join_parts<Element, HeadSize, k_attention_warps>(a, tile, computer, sums, weights);
  }
};

}  // namespace tessera::decode
