// SPDX-License-Identifier: Apache-2.0
// Where keys and values of earlier tokens lie, and how attention over them is cut into tiles: arithmetic of
// the host and of the GPU.
#pragma once

#include <compare>
#include <cstddef>
#include <tessera/sync/config.cuh>

#include "kernels/decode/model.hpp"

namespace tessera::decode {

/// Keys, and values likewise: [layer][sequence][key head][position][head_size], 16 bits each. In a position's
/// row, 16 bytes of number c lie at c xor (position modulo 8), with heads of 96 at c xor (position / 2 modulo
/// 4): so a range of positions is one piece of memory that can be copied to shared memory as it is and be
/// read there by matrix instructions, all banks at once.
TESSERA_HOST_DEVICE constexpr int turn_of_row(int position, int head_size) {
  return head_size % 64 == 0 ? position & 7 : position / 2 & 3;
}
TESSERA_HOST_DEVICE constexpr int place_in_row(int position, int dimension, int head_size) {
  return (dimension / 8 ^ turn_of_row(position, head_size)) * 8 + dimension % 8;
}

/// Sizes of a cache, in elements. In pages: `batch` is their number, and `capacity` the positions of one.
struct CacheShape {
  int layers = 0, batch = 0, kv_heads = 0, capacity = 0, head_size = 0;

  constexpr std::size_t row(int layer, int sequence, int head, int position) const {
    auto const n = [](int i) { return static_cast<std::size_t>(i); };
    return (((n(layer) * n(batch) + n(sequence)) * n(kv_heads) + n(head)) * n(capacity) + n(position)) *
           n(head_size);
  }
  constexpr std::size_t elements() const { return row(layers, 0, 0, 0); }
  constexpr std::size_t at(int layer, int sequence, int head, int position, int dimension) const {
    return row(layer, sequence, head, position) +
           static_cast<std::size_t>(place_in_row(position, dimension, head_size));
  }
};

/// Where the bf16 of that number is.
inline void* bytes_behind(void* at, std::size_t elements) {
  return static_cast<unsigned char*>(at) + 2 * elements;
}

/// A cache in pages: [layer][page][key head][position of the page][head_size], keys and values likewise, rows
/// as above. Which page has a sequence's positions p * positions and so on stands in a table.
struct CachePages {
  int const* table = nullptr;  ///< [sequence][of_sequence], in device memory; null: the cache has no pages
  /// Of each sequence, zeroed when it begins: 1 more than a position whose page the table has wrong. Such a
  /// page is not written, and another is read in its place.
  int* wrong = nullptr;
  int of_sequence = 0;
  int positions = 0;  ///< of a page: a multiple of 16
  int count = 0;
};
constexpr int k_most_page = 1 << 14;  ///< positions
/// Entries of a table for a sequence.
TESSERA_HOST_DEVICE constexpr int pages_of(int capacity, int positions) {
  return (capacity + positions - 1) / positions;
}

struct Positions {
  int begin = 0, end = 0;
};

/// Positions that a matrix instruction takes at once.
constexpr int k_position_block = 16;

/// Part `i` of `splits` of the cached positions: whole blocks, the last ones may be shorter or empty.
TESSERA_HOST_DEVICE constexpr Positions positions_of(int cached, int splits, int i) {
  int const each =
      ((cached + splits - 1) / splits + k_position_block - 1) / k_position_block * k_position_block;
  int const begin = i * each < cached ? i * each : cached;
  return {begin, begin + each < cached ? begin + each : cached};
}

/// The first position that the token at `position` sees, of `window` with its own; 0: all up to its own.
TESSERA_HOST_DEVICE constexpr int first_seen(int position, int window) {
  return window > 0 && position >= window ? position - window + 1 : 0;
}
/// Part `i` of the cached positions from the block of `first` on.
TESSERA_HOST_DEVICE constexpr Positions positions_from(int first, int cached, int splits, int i) {
  int const block = first / k_position_block * k_position_block, begin = block < cached ? block : cached;
  auto const part = positions_of(cached - begin, splits, i);
  return {begin + part.begin, begin + part.end};
}

/// Positions to a slot of the early ring: keys in its first half, values behind them.
TESSERA_HOST_DEVICE constexpr int positions_of_slot(int slot_bytes, int head_size) {
  return slot_bytes / (4 * head_size) / k_position_block * k_position_block;
}

/// A tile of attention: one sequence, one key head with its query heads, one part of the positions.
struct AttentionTile {
  int sequence = 0, head = 0, split = 0;
};
TESSERA_HOST_DEVICE constexpr AttentionTile attention_tile(int tile, int kv_heads, int splits) {
  int const pair = tile / splits;
  return {pair / kv_heads, pair % kv_heads, tile % splits};
}

/// Parts into which each sequence and key head is cut so that all of `blocks` have work.
constexpr int k_most_splits = 32;
int splits_for(Model const& model, int batch, int blocks);
/// Are the parts of a sequence and key head a cluster, whose blocks put them together? Where all clusters
/// have room at once: SMs of a part of the GPU (GPC) are not always divided evenly, and a second wave costs
/// more than a meeting in device memory.
constexpr int k_most_cluster = 8;
TESSERA_HOST_DEVICE constexpr bool parts_share_cluster(int tiles, int splits, int sms) {
  return splits > 1 && splits <= k_most_cluster && 4 * tiles <= 3 * sms;
}
/// A launch of attention of its own: bytes that an SM reads in the time that it takes, with so many positions
/// of each sequence, cut into `splits` parts.
double launched_work(Model const& model, int batch, int positions, int sms, int splits);
/// Parts with which that is least, behind so many cached tokens.
struct LaunchedSplits {
  int apart = 1;       ///< that meet in device memory; 1: there is nothing to meet
  int in_cluster = 0;  ///< where parts_share_cluster(), if that has room for all clusters; 0: nowhere
};
LaunchedSplits launched_splits(Model const& model, int batch, int cached, int sms);
/// Parts of a sequence and key head, and who puts them together.
struct AttentionParts {
  int splits = 1;
  bool in_clusters = false;

  auto operator<=>(AttentionParts const&) const = default;
};
/// Blocks of that launch to an SM, where there are so many.
TESSERA_HOST_DEVICE constexpr int launched_blocks(int head_size) { return head_size == 128 ? 3 : 4; }
/// Floats in shared memory of a tile of attention, for the sums of warps.
constexpr int k_attention_warps = 8;
TESSERA_HOST_DEVICE constexpr int attention_pitch(int head_size) { return head_size + 8; }
/// Of the sums of a block's warps, and what the other parts send of a share of the results.
TESSERA_HOST_DEVICE constexpr int attention_sums(int group, int head_size) {
  return k_attention_warps * group * (attention_pitch(head_size) + 2);
}
/// Where queries lie that the block fetches itself, 16-byte aligned, with the new key and value behind them.
TESSERA_HOST_DEVICE constexpr int attention_queries_at(int group, int head_size) {
  int const received = group * head_size + k_most_splits + 2 * group * k_most_splits;
  return (attention_sums(group, head_size) + received) * static_cast<int>(sizeof(float));
}
/// `words`: of kernels whose attention sends and fetches words.
TESSERA_HOST_DEVICE constexpr int attention_scratch_bytes(int group, int head_size, bool words) {
  return words ? attention_queries_at(group, head_size) + 2 * (group + 2) * head_size
               : attention_sums(group, head_size) * static_cast<int>(sizeof(float));
}
/// Words of a part: its sums, and of each query head the largest score and the sum of weights.
TESSERA_HOST_DEVICE constexpr int part_words_of(int group, int head_size) { return group * (head_size + 2); }

}  // namespace tessera::decode
