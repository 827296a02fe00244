// SPDX-License-Identifier: Apache-2.0
// The way of a GEMM's stores from its SMs to memory. A place to put hardware that stands in it (docs/t3.md).
#pragma once

#include <cstdint>

#include "overlap/memory_system.hpp"
#include "overlap/write_combining.hpp"

namespace tessera::overlap {

/// Through buffers of SMs, then either into L2, which writes back what it evicts, or past L2.
class StorePath {
 public:
  /// Stores of `store_bytes`, of `sms` SMs.
  StorePath(OverlapHardware const& hardware, int sms, double store_bytes, bool through_l2)
      : combining_(static_cast<std::size_t>(sms), hardware.write_combining_kib * 1024.0, store_bytes),
        store_bytes_(store_bytes),
        through_l2_(through_l2) {}

  bool through_l2() const { return through_l2_; }

  /// A work-group stores a region, the `last` of its tile. Calls `leave(group, region)` for each that leaves
  /// the SM now.
  template <class Leave>
  void store(std::int32_t sm, int group, std::int64_t region, bool last, Leave const& leave) {
    combining_.store(sm, group, region, last, leave);
  }

  /// What has left the SM goes to this GPU's memory, as the `unit`th piece of an array from a channel-local
  /// address on. The work-group is told (BundleKind::store) as soon as L2 has taken it, or memory has served
  /// it; a Tracker hears only of what goes past L2.
  void write(MemorySystem& memory, int group, std::int64_t region, std::uint64_t base, std::int64_t unit,
             AccessKind kind, Picoseconds now) const {
    auto const bundle = memory.open(BundleKind::store, Traffic::gemm_write, group, through_l2_ ? -1 : region);
    memory.count(Traffic::gemm_write, store_bytes_);
    memory.store(bundle, now, base, unit, store_bytes_, !through_l2_, kind);
  }

 private:
  WriteCombining combining_;
  double store_bytes_;
  bool through_l2_;
};

}  // namespace tessera::overlap
