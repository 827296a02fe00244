// SPDX-License-Identifier: Apache-2.0
// Where a position stands in a cache of pages, and loads that go page by page.
#pragma once

#include <tessera/run/roles.cuh>

#include "kernels/decode/bulk_load.cuh"
#include "kernels/decode/cache.hpp"

namespace tessera::decode {

/// The page of a position of a sequence; -1 where the table has none, which is noted.
__device__ inline int page_of(CachePages const& pages, int sequence, int position) {
  int const entry = position / pages.positions;
  int const page =
      entry < pages.of_sequence ? __ldcg(pages.table + sequence * pages.of_sequence + entry) : -1;
  if (page >= 0 && page < pages.count) return page;
  pages.wrong[sequence] = position + 1;
  return -1;
}

/// The first element of a position's row, from where the layer's begin.
template <int HeadSize>
__device__ inline long long row_of_page(CachePages const& pages, int page, int kv_heads, int head,
                                        int position) {
  long long const rows = static_cast<long long>(page * kv_heads + head) * pages.positions;
  return (rows + position % pages.positions) * HeadSize;
}

/// As load_positions(), of a sequence's pages: a load for each page of a slot. `keys`, `values`: of the
/// layer.
template <int HeadSize, class Element, class Loader>
__device__ void load_pages(Loader& loader, CachePages const& pages, int sequence, int kv_heads, int head,
                           Element const* keys, Element const* values, Positions const& past,
                           int slot_positions) {
  constexpr int row_bytes = HeadSize * static_cast<int>(sizeof(Element));
  unsigned long long const policy = streaming_policy();
  for (int from = past.begin; from < past.end; from += slot_positions) {
    int const end = min(from + slot_positions, past.end);
    RingSlot slot;
    if (!loader.take(static_cast<unsigned>(2 * (end - from) * row_bytes), slot)) continue;
    for (int at = from; at < end;) {
      int const upto = min(end, (at / pages.positions + 1) * pages.positions);
      auto const bytes = static_cast<unsigned>((upto - at) * row_bytes);
      // A page that there is not: another one, so that nobody waits for it.
      int const page = max(page_of(pages, sequence, at), 0);
      long long const row = row_of_page<HeadSize>(pages, page, kv_heads, head, at);
      unsigned const to = slot.address + static_cast<unsigned>((at - from) * row_bytes);
      load_bulk(to, keys + row, bytes, slot.barrier, policy);
      load_bulk(to + static_cast<unsigned>(slot_positions * row_bytes), values + row, bytes, slot.barrier,
                policy);
      at = upto;
    }
  }
}

}  // namespace tessera::decode
