// SPDX-License-Identifier: Apache-2.0
// A part of a GPU's memory: slices of L2, and the channel behind them.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "overlap/dram_channel.hpp"
#include "overlap/l2_slice.hpp"
#include "tessera/measure/machine_profile.hpp"

namespace tessera::overlap {

struct PartitionEvent {
  enum class Kind : std::uint8_t {
    queued,   ///< an access that nobody answers from L2 has gone into the channel's queue as a whole
    loaded,   ///< sectors of a load have left L2
    stored,   ///< sectors of a store have been taken by L2
    served,   ///< by memory
    fetched,  ///< by memory, for L2
    evicted,  ///< by memory: dirty sectors, written back
  };
  Kind kind;
  std::int16_t sectors;
  std::int32_t bundle;  ///< -1: fetched, evicted
  double ns;
};

class MemoryPartition {
 public:
  MemoryPartition(MachineProfile const& machine, Arbitration policy, int fixed_threshold);

  /// Through L2; or past it in order with what goes through.
  void push(L2Request const& request) { slices_[slice_of(request.line)].push(request); }
  /// Past L2: what copy engines, peers and kernels of collectives move.
  void push(Stream stream, Access const& access) { channel_.push(stream, access); }

  /// Runs cycles up to, not including, `until`. Events come in the order in which they were found; each has
  /// its own time.
  void advance(std::int64_t until, std::vector<PartitionEvent>& events);

  bool idle() const;
  /// First cycle at which something can happen; precondition: not idle.
  std::int64_t next_cycle() const;

  DramChannel& channel() { return channel_; }
  DramChannel const& channel() const { return channel_; }

 private:
  struct Transit {  // an access of a slice, on its way to memory
    std::uint64_t line;
    std::int32_t slice;
    std::int32_t bundle;
    std::uint8_t sectors;
    AccessKind kind;
    std::int8_t unserved;
  };
  struct Fill {
    std::int64_t cycle;
    std::int32_t transit;
  };

  std::size_t slice_of(std::uint64_t line) const {
    return slices_.size() == 1 ? 0 : ((line * 0x9E3779B97F4A7C15ULL) >> 33) % slices_.size();
  }
  std::int64_t cycle_of(double ns) const { return static_cast<std::int64_t>(ns / period_); }
  void fill(std::int64_t cycle, std::vector<PartitionEvent>& events);
  void take(std::size_t slice, std::vector<PartitionEvent>& events);
  void send(std::size_t slice, L2Event const& event);
  void tell(ChannelEvent const& event, std::vector<PartitionEvent>& events);

  double period_;  ///< ns of a cycle of memory
  double l2_to_dram_;
  DramAddressMap map_;
  DramChannel channel_;
  std::vector<L2Slice> slices_;
  std::int64_t cycle_ = 0;
  std::deque<Fill> fills_;
  std::vector<Transit> transits_;
  std::vector<std::int32_t> free_transits_;
  std::vector<ChannelEvent> channel_events_;
  std::vector<L2Event> l2_events_;
};

}  // namespace tessera::overlap
