// SPDX-License-Identifier: Apache-2.0
// Keys and values of cached positions, loaded early into slots of a ring.
#pragma once

#include <tessera/run/roles.cuh>

#include "kernels/decode/bulk_load.cuh"
#include "kernels/decode/cache.hpp"

namespace tessera::decode {

/// `keys`, `values`: of position 0, rows of RowBytes. A slot has `slot_positions` keys in its first half and
/// their values behind; the last one may have fewer.
template <int RowBytes, class Loader>
__device__ void load_positions(Loader& loader, void const* keys, void const* values, Positions const& past,
                               int slot_positions) {
  unsigned long long const policy = streaming_policy();
  for (int from = past.begin; from < past.end; from += slot_positions) {
    auto const bytes = static_cast<unsigned>(min(slot_positions, past.end - from) * RowBytes);
    RingSlot slot;
    if (!loader.take(2 * bytes, slot)) continue;
    long long const at = static_cast<long long>(from) * RowBytes;
    load_bulk(slot.address, static_cast<char const*>(keys) + at, bytes, slot.barrier, policy);
    load_bulk(slot.address + slot_positions * RowBytes, static_cast<char const*>(values) + at, bytes,
              slot.barrier, policy);
  }
}

}  // namespace tessera::decode
