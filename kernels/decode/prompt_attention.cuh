// SPDX-License-Identifier: Apache-2.0
// Attention of runs of new tokens over cached ones and over themselves, as an operation with roles: keys and
// values of earlier steps are loaded early; what the product before it wrote is read past the L1 by the
// threads that compute, behind the loader that has waited for it.
#pragma once

#include <tessera/run/roles.cuh>
#include <tessera/sync.cuh>

#include "kernels/decode/attention_warp.cuh"
#include "kernels/decode/cache_pages.cuh"
#include "kernels/decode/last_to_arrive.cuh"
#include "kernels/decode/load_positions.cuh"
#include "kernels/decode/prompt.hpp"
#include "kernels/few_tokens/product.hpp"

namespace tessera::decode {

/// bf16 or fp16; heads of 64, 96 or 128. A tile is an item of the step's table and a key head. Each warp has
/// 16 of its queries, token by token the query heads of the key head, and reads all keys. `Extras`: queries
/// and keys may be normed, a token may see no more than a window, and the cache may have pages.
template <class Element, int HeadSize, bool Extras = false>
struct PromptAttention {
  static constexpr bool has_roles = true;
  static constexpr int threads = 32 * k_attention_warps;
  static constexpr int loader_registers = 56;
  using Arguments = PromptArguments;

  /// One for each stage of the body, in device memory.
  PromptArguments const* stages = nullptr;
  TESSERA_HOST_DEVICE PromptArguments const* arguments(int stage) const { return stages + stage; }

  template <class Loader>
  __device__ void load_early(Loader& loader) const {
    auto const& a = loader.template arguments<PromptAttention>();
    Tile const tile(a, loader.job->tile);
    if (tile.is_empty()) return;
    if constexpr (Extras)
      if (a.pages.table != nullptr) {
        long long const layer = layer_of(a, loader.job->iteration) * a.layer_elements;
        load_pages<HeadSize>(loader, a.pages, tile.of.sequence, a.kv_heads, tile.head,
                             static_cast<Element const*>(a.keys) + layer,
                             static_cast<Element const*>(a.values) + layer, tile.of.past, a.slot_positions);
        return;
      }
    long long const row = tile.first_row(a, loader.job->iteration);
    load_positions<row_bytes>(loader, static_cast<Element const*>(a.keys) + row,
                              static_cast<Element const*>(a.values) + row, tile.of.past, a.slot_positions);
  }

  /// A slot without data: it says that what the product wrote is there.
  template <class Loader>
  __device__ void load_late(Loader& loader) const {
    auto const& a = loader.template arguments<PromptAttention>();
    Tile const tile(a, loader.job->tile);
    if (tile.is_empty()) return;
    if (loader.warp() > 0) {
      loader.pass(1);
      return;
    }
    if (a.qkv_tiles > 0) {
      int const all = a.row(HeadSize), upto = (tile.head + 1) * (a.group + 2) * HeadSize;
      if (!loader.wait_first(operand_a, few_tokens::parts_of_first(all, a.qkv_tiles, upto), a.qkv_tiles))
        return;
    }
    RingSlot slot;
    if (loader.take(slot)) loader.fill(slot);
  }

  template <class Computer, class View>
  __device__ void compute(Computer& computer, View& view) const {
    auto const& a = computer.template arguments<PromptAttention>();
    Tile const tile(a, computer.job->tile);
    if (tile.is_empty()) return;
    Queries const queries(a, tile);
    int const window = window_of(a, computer.job->iteration);
    Warp state(a.scale);
    RingPlace const late = computer.next_late_slot();
    computer.wait_late_slot(late);
    computer.release_late_slot(late);
    if (queries.any()) load_queries(a, tile, queries, computer.job->iteration, state);
    if (tile.newest()) {
      unsigned const keys = shared_address(computer.scratch), values = keys + k_most_prompt_rows * row_bytes;
      bring_new_keys(a, tile, computer.scratch, computer.job->iteration);
      bring_new_values(a, tile, computer.scratch + k_most_prompt_rows * row_bytes, computer.job->iteration);
      computer.sync();
      // Each query sees the run's tokens up to its own.
      if (queries.any())
        for (int from = 0; from <= queries.last; from += k_position_block) {
          int const seen[2] = {queries.token[0] + 1 - from, queries.token[1] + 1 - from};
          add_block(window, tile, queries, state, keys + from * row_bytes, values + from * row_bytes,
                    tile.of.end - from, seen, tile.of.cached + from);
        }
    }
    auto const past = tile.of.past;
    for (int from = past.begin; from < past.end; from += a.slot_positions) {
      RingPlace const place = computer.next_slot();
      computer.wait_slot(place);
      int const count = min(a.slot_positions, past.end - from);
      unsigned const keys = computer.slot(place), values = keys + a.slot_positions * row_bytes;
      if (queries.any())
        for (int block = 0; block < count; block += k_position_block)
          add_past(window, tile, queries, state, keys + block * row_bytes, values + block * row_bytes,
                   count - block, from + block);
      computer.release_slot(place);
    }
    computer.done_reading();
    if (view.record().stage.before_stores > 0) {
      if (threadIdx.x < 32 && !view.template wait_before_store<Group::warp>()) computer.stop();
      if (computer.anyone_stopped()) return;
    }
    state.finish();
    if (tile.of.parts == 1)
      store(a, tile, queries, state);
    else
      join_parts(a, tile, queries, state, computer);
  }

 private:
  using Warp = AttentionWarp<Element, HeadSize, 2>;
  static constexpr int row_bytes = HeadSize * static_cast<int>(sizeof(Element));
  static constexpr int pieces = HeadSize / 8;  ///< of 16 bytes, of a key or value

  __device__ static unsigned layer_of(PromptArguments const& a, long long iteration) {
    return static_cast<unsigned>(iteration) % static_cast<unsigned>(a.layers);
  }
  __device__ static bool has_norms(PromptArguments const& a) {
    return Extras && HeadSize % 64 == 0 && a.head_gains != nullptr;
  }
  /// Of the iteration's layer.
  __device__ static int window_of(PromptArguments const& a, long long iteration) {
    return Extras && static_cast<int>(layer_of(a, iteration)) >= a.window_from ? a.window : 0;
  }
  /// Those of queries, and behind them those of keys.
  __device__ static Element const* gains_of(PromptArguments const& a, long long iteration) {
    return static_cast<Element const*>(a.head_gains) + 2 * HeadSize * layer_of(a, iteration);
  }

  struct Tile {
    int item, head;
    PromptItem of;

    __device__ Tile(PromptArguments const& a, int tile)
        : item(tile / a.kv_heads), head(tile % a.kv_heads), of(a.items[item]) {}
    __device__ bool is_empty() const { return of.begin == of.end; }
    __device__ bool newest() const { return of.newest(item); }
    __device__ int count(PromptArguments const& a) const { return (of.end - of.begin) * a.group; }
    /// Element of position 0 in the cache.
    __device__ long long first_row(PromptArguments const& a, long long iteration) const {
      return layer_of(a, iteration) * a.layer_elements +
             static_cast<long long>(of.sequence * a.kv_heads + head) * a.capacity * HeadSize;
    }
    /// What the product wrote of a token of the run for the tile's key head.
    __device__ Element const* of_token(PromptArguments const& a, int token) const {
      return static_cast<Element const*>(a.qkv) + static_cast<long long>(of.row + token) * a.row(HeadSize) +
             head * (a.group + 2) * HeadSize;
    }
  };

  /// The lane's two queries, of the tile's. Lanes behind the last one repeat it, and what they come to nobody
  /// stores.
  struct Queries {
    int count, first;
    int index[2], token[2], of_group[2];
    int last;  ///< token of the warp's last query

    __device__ Queries(PromptArguments const& a, Tile const& tile)
        : count(tile.count(a)), first(static_cast<int>(threadIdx.x) / 32 * 16) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        index[r] = first + 8 * r + Warp::lane() / 4;
        int const one = min(index[r], count - 1);
        token[r] = tile.of.begin + one / a.group, of_group[r] = one % a.group;
      }
      last = tile.of.begin + min(first + 15, count - 1) / a.group;
    }
    /// Has the warp one?
    __device__ bool any() const { return first < count; }
    __device__ bool has(int r) const { return index[r] < count; }
  };

  /// Rows from `position` on, of which each query sees the first `seen` of its window.
  __device__ static void add_block(int window, Tile const& tile, Queries const& queries, Warp& state,
                                   unsigned keys, unsigned values, int count, int const (&seen)[2],
                                   int position) {
    if constexpr (Extras) {
      int const unseen[2] = {first_seen(tile.of.cached + queries.token[0], window) - position,
                             first_seen(tile.of.cached + queries.token[1], window) - position};
      state.template add_block<true>(keys, values, count, seen, unseen);
    } else {
      state.add_block(keys, values, count, seen);
    }
  }
  __device__ static void add_past(int window, Tile const& tile, Queries const& queries, Warp& state,
                                  unsigned keys, unsigned values, int count, int position) {
    if constexpr (Extras) {
      int const seen[2] = {count, count};
      add_block(window, tile, queries, state, keys, values, count, seen, position);
    } else {
      state.add_block(keys, values, count);
    }
  }

  __device__ static void load_queries(PromptArguments const& a, Tile const& tile, Queries const& queries,
                                      long long iteration, Warp& state) {
    typename Warp::Fragment gains;
    if (has_norms(a)) Warp::load_gains(gains_of(a, iteration), gains);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      auto const* const from = tile.of_token(a, queries.token[r]) + queries.of_group[r] * HeadSize;
      auto const word = [&](int step, int half) {
        return __ldcg(reinterpret_cast<unsigned const*>(from + Warp::element(step, half)));
      };
      typename Warp::Turns turns;
      Warp::load_turns(a.turns + static_cast<long long>(tile.of.cached + queries.token[r]) * (HeadSize / 2),
                       turns);
#pragma unroll
      for (int s = 0; s < Warp::steps / 2; ++s)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          auto &low = state.queries[r][s][h], &high = state.queries[r][s + Warp::steps / 2][h];
          low = word(s, h), high = word(s + Warp::steps / 2, h);
          if (!has_norms(a)) turn_pairs<Element>(low, high, turns[s][h]);
        }
      if (has_norms(a)) Warp::norm_and_turn(gains, a.norm_epsilon, turns, state.queries[r]);
    }
  }

  /// Of keys or values: the layer's, or where it has no pages, position 0 of the tile's.
  __device__ static Element* first_of(PromptArguments const& a, Tile const& tile, long long iteration,
                                      void* cache) {
    bool const pages = Extras && a.pages.table != nullptr;
    return static_cast<Element*>(cache) +
           (pages ? layer_of(a, iteration) * a.layer_elements : tile.first_row(a, iteration));
  }
  /// A new token's row behind first_of(), if it is one of the tile's own; else null.
  __device__ static Element* row_of_new(PromptArguments const& a, Tile const& tile, Element* first,
                                        int token) {
    if (token < tile.of.begin) return nullptr;
    int const position = tile.of.cached + token;
    if constexpr (Extras)
      if (a.pages.table != nullptr) {
        int const page = page_of(a.pages, tile.of.sequence, position);
        return page < 0 ? nullptr
                        : first + row_of_page<HeadSize>(a.pages, page, a.kv_heads, tile.head, position);
      }
    return first + static_cast<long long>(position) * HeadSize;
  }
  /// 16 bytes of number `piece` of a row: to shared memory, where the run's tokens are rows from 0 on, and to
  /// the cache if there is a row for it.
  __device__ static void put(Tile const& tile, int token, int piece, uint4 const& what, unsigned char* shared,
                             Element* row) {
    *reinterpret_cast<uint4*>(shared + token * row_bytes + 2 * place_in_row(token, 8 * piece, HeadSize)) =
        what;
    if (row != nullptr)
      *reinterpret_cast<uint4*>(row + place_in_row(tile.of.cached + token, 8 * piece, HeadSize)) = what;
  }

  /// A key's elements of a thread, normed and turned; the threads of a key stand one behind the other.
  __device__ static void norm_and_turn_key(PromptArguments const& a, long long iteration, int piece,
                                           float4 const* turns, unsigned (&low)[4], unsigned (&high)[4]) {
    float squares = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) squares += squares_of<Element>(low[j]) + squares_of<Element>(high[j]);
    // Others of the warp may have no key. Heads of 96 are not normed: their lanes are no power of two.
    constexpr int lanes = pieces / 2;
    unsigned const together = ((1u << lanes) - 1) << (Warp::lane() / lanes * lanes);
    float const scale = rsqrtf(sum_of_lanes<lanes>(squares, together) / HeadSize + a.norm_epsilon);
    auto const* const gains = gains_of(a, iteration) + HeadSize + 8 * piece;
    auto const first = __ldg(reinterpret_cast<uint4 const*>(gains));
    auto const second = __ldg(reinterpret_cast<uint4 const*>(gains + HeadSize / 2));
    unsigned const of_low[4] = {first.x, first.y, first.z, first.w};
    unsigned const of_high[4] = {second.x, second.y, second.z, second.w};
#pragma unroll
    for (int j = 0; j < 4; ++j)
      turn_pairs<Element>(low[j], high[j], __ldg(turns + j), normed<Element>(low[j], scale, of_low[j]),
                          normed<Element>(high[j], scale, of_high[j]));
  }

  /// All threads: turned by their positions.
  __device__ static void bring_new_keys(PromptArguments const& a, Tile const& tile, unsigned char* shared,
                                        long long iteration) {
    auto* const cache = first_of(a, tile, iteration, a.keys);
    for (int i = static_cast<int>(threadIdx.x); i < tile.of.end * (pieces / 2); i += threads) {
      int const token = i / (pieces / 2), piece = i % (pieces / 2);
      auto* const row = row_of_new(a, tile, cache, token);
      auto const* const from = tile.of_token(a, token) + a.group * HeadSize + 8 * piece;
      auto const first = __ldcg(reinterpret_cast<uint4 const*>(from));
      auto const second = __ldcg(reinterpret_cast<uint4 const*>(from + HeadSize / 2));
      unsigned low[4] = {first.x, first.y, first.z, first.w};
      unsigned high[4] = {second.x, second.y, second.z, second.w};
      auto const* const turns = reinterpret_cast<float4 const*>(
          a.turns + static_cast<long long>(tile.of.cached + token) * (HeadSize / 2) + 8 * piece);
      if (has_norms(a))
        norm_and_turn_key(a, iteration, piece, turns, low, high);
      else
#pragma unroll
        for (int j = 0; j < 4; ++j) turn_pairs<Element>(low[j], high[j], __ldg(turns + j));
      put(tile, token, piece, make_uint4(low[0], low[1], low[2], low[3]), shared, row);
      put(tile, token, piece + pieces / 2, make_uint4(high[0], high[1], high[2], high[3]), shared, row);
    }
  }
  __device__ static void bring_new_values(PromptArguments const& a, Tile const& tile, unsigned char* shared,
                                          long long iteration) {
    auto* const cache = first_of(a, tile, iteration, a.values);
    for (int i = static_cast<int>(threadIdx.x); i < tile.of.end * pieces; i += threads) {
      int const token = i / pieces, piece = i % pieces;
      auto* const row = row_of_new(a, tile, cache, token);
      auto const* const from = tile.of_token(a, token) + (a.group + 1) * HeadSize + 8 * piece;
      put(tile, token, piece, __ldcg(reinterpret_cast<uint4 const*>(from)), shared, row);
    }
  }

  __device__ static Element* output_of(PromptArguments const& a, Tile const& tile, int token, int of_group) {
    return static_cast<Element*>(a.output) +
           (static_cast<long long>(tile.of.row + token) * a.kv_heads * a.group + tile.head * a.group +
            of_group) *
               HeadSize;
  }

  __device__ static void store(PromptArguments const& a, Tile const& tile, Queries const& queries,
                               Warp const& state) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (!queries.has(r)) continue;
      auto* const to = output_of(a, tile, queries.token[r], queries.of_group[r]) + Warp::lane() % 4 * 2;
#pragma unroll
      for (int n = 0; n < HeadSize / 8; ++n)
        *reinterpret_cast<unsigned*>(to + 8 * n) =
            packed<Element>(state.sums[n][2 * r] / state.total[r], state.sums[n][2 * r + 1] / state.total[r]);
    }
  }

  /// Who comes last of an item's parts puts them together, in the order of positions.
  template <class Computer>
  __device__ static void join_parts(PromptArguments const& a, Tile const& tile, Queries const& queries,
                                    Warp const& state, Computer& computer) {
    auto* const weights =
        reinterpret_cast<float2*>(a.parts + static_cast<long long>(a.tiles) * k_prompt_queries * HeadSize);
    auto const row_of = [&](int item, int query) {
      return static_cast<long long>(item * a.kv_heads + tile.head) * k_prompt_queries + query;
    };
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (!queries.has(r)) continue;
      long long const row = row_of(tile.item, queries.index[r]);
      auto* const to = a.parts + row * HeadSize + Warp::lane() % 4 * 2;
#pragma unroll
      for (int n = 0; n < HeadSize / 8; ++n)
        *reinterpret_cast<float2*>(to + 8 * n) = make_float2(state.sums[n][2 * r], state.sums[n][2 * r + 1]);
      if (Warp::lane() % 4 == 0) weights[row] = make_float2(state.most[r], state.total[r]);
    }
    if (!last_to_arrive(computer, a.arrived + tile.of.first * a.kv_heads + tile.head,
                        static_cast<unsigned>(tile.of.parts)))
      return;
    constexpr int quarters = HeadSize / 4;
    for (int i = static_cast<int>(threadIdx.x); i < queries.count * quarters; i += threads) {
      int const query = i / quarters, d = i % quarters * 4;
      Joined joined[4];
#pragma unroll 4
      for (int part = 0; part < tile.of.parts; ++part) {
        long long const row = row_of(tile.of.first + part, query);
        float2 const weight = __ldcg(weights + row);
        auto const sum = __ldcg(reinterpret_cast<float4 const*>(a.parts + row * HeadSize + d));
        joined[0].add(weight, sum.x), joined[1].add(weight, sum.y);
        joined[2].add(weight, sum.z), joined[3].add(weight, sum.w);
      }
      auto* const to = output_of(a, tile, tile.of.begin + query / a.group, query % a.group) + d;
      *reinterpret_cast<uint2*>(to) =
          make_uint2(packed<Element>(joined[0].sum / joined[0].total, joined[1].sum / joined[1].total),
                     packed<Element>(joined[2].sum / joined[2].total, joined[3].sum / joined[3].total));
    }
  }
};

}  // namespace tessera::decode
