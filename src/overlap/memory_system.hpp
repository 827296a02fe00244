// SPDX-License-Identifier: Apache-2.0
// One GPU's memory: channels, and the bundles of accesses that belong together.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "overlap/memory_partition.hpp"
#include "overlap/operand.hpp"
#include "simulate/event_queue.hpp"
#include "tessera/overlap/run.hpp"

namespace tessera::overlap {

using simulation::EventQueue;
using simulation::Picoseconds;

/// What a bundle of accesses is for, and so who is told when it has been queued or served.
enum class BundleKind : std::uint8_t {
  load,          ///< a slice of k for an SM; owner: a slot of a work-group
  store,         ///< owner: the work-group
  copy,          ///< owner: the wavefront tile that the copy engine reads
  incoming,      ///< owner: the wavefront tile that a peer updates
  gathered,      ///< owner: the piece of A that a peer stores
  kernel_read,   ///< owner: the SM of a collective's kernel
  kernel_write,  ///< owner: the unit
};

struct Bundle {
  BundleKind kind = BundleKind::load;
  Traffic traffic = Traffic::gemm_read;
  std::int64_t owner = 0;
  std::int64_t region = -1;   ///< wavefront tile that a tracker counts for, or -1
  std::int32_t unqueued = 0;  ///< sectors that are not in a channel's queue yet; none of what L2 answers
  std::int32_t unserved = 0;  ///< sectors
  std::int32_t atoms = 0;     ///< sectors, in all
  Picoseconds last = 0;       ///< latest of what has happened
};

/// Sectors of one line that a load asks for.
struct LineSectors {
  std::uint64_t line = 0;  ///< inside the channel
  std::int32_t channel = 0;
  std::uint8_t sectors = 0;
};

/// Something that a bundle's owner should know.
struct MemoryEvent {
  enum class Kind : std::uint8_t { queued, served };
  Kind kind;
  std::int32_t bundle;
  Picoseconds time;
};

class MemorySystem {
 public:
  MemorySystem(MachineProfile const& machine, OverlapOptions const& options, EventQueue& queue,
               std::vector<int> components);

  std::int32_t open(BundleKind kind, Traffic traffic, std::int64_t owner, std::int64_t region = -1);
  /// What the simulated channels hold of pieces of an operand.
  std::vector<LineSectors> lines_of(Pieces const& pieces) const;
  /// What they hold of the `unit`th piece of an array that is spread evenly over the channels from a
  /// channel-local address on, as store() writes it.
  std::vector<LineSectors> lines_of(std::uint64_t base, std::int64_t unit, double bytes) const;
  /// Loads them through L2.
  void load(std::int32_t bundle, Picoseconds now, std::vector<LineSectors> const& lines);
  /// Stores the `unit`th piece of an array that is spread evenly over the channels from a channel-local
  /// address on: into L2 (AccessKind::read has no meaning), or past it with `through`.
  void store(std::int32_t bundle, Picoseconds now, std::uint64_t base, std::int64_t unit, double bytes,
             bool through, AccessKind kind);
  /// Accesses such a piece without L2, as copy engines, peers and kernels of collectives do.
  void add_unit(std::int32_t bundle, Stream stream, AccessKind kind, Picoseconds now, std::uint64_t base,
                std::int64_t unit, double bytes);
  /// True if no simulated channel holds any of it: then nothing will be told, and the owner goes on at once.
  bool empty(std::int32_t bundle) const { return at(bundle).atoms == 0; }
  void close(std::int32_t bundle) { free_.push_back(bundle); }
  Bundle& at(std::int32_t bundle) { return bundles_[static_cast<std::size_t>(bundle)]; }
  Bundle const& at(std::int32_t bundle) const { return bundles_[static_cast<std::size_t>(bundle)]; }

  /// Runs a channel for as long as nothing that happens from now on can reach it.
  void advance(int channel, Picoseconds now, std::vector<MemoryEvent>& events);

  void count(Traffic traffic, double bytes) { bytes_[static_cast<std::size_t>(traffic)] += bytes; }
  void drain();  ///< the kernel is over (arbitration)

  int channels() const { return static_cast<int>(partitions_.size()); }
  DramChannel const& channel(int c) const { return partitions_[static_cast<std::size_t>(c)].channel(); }
  /// What memory knows of a run: bytes, their series, commands, and the fullest queue.
  OverlapRun totals() const;
  Picoseconds last_served() const { return last_served_; }
  Picoseconds return_latency() const { return return_; }
  Picoseconds hit_return() const { return hit_return_; }  ///< L2 to SM
  Picoseconds hit_latency() const { return request_ + hit_return_; }
  std::int64_t commands() const;
  std::int64_t open_bundles() const { return static_cast<std::int64_t>(bundles_.size() - free_.size()); }

 private:
  std::int64_t cycle_at(Picoseconds time) const {
    return static_cast<std::int64_t>((static_cast<double>(time) + period_ - 1) / period_);
  }
  void push(int channel, std::int32_t bundle, Stream stream, AccessKind kind, Picoseconds now,
            std::uint64_t local, std::int64_t bytes);
  void push(int channel, L2Request const& request, Picoseconds now);
  void wake(int channel, Picoseconds at);
  void handle(PartitionEvent const& event, std::vector<MemoryEvent>& events);
  void moved(Traffic traffic, PartitionEvent const& event);

  OverlapHardware const& hardware_;
  EventQueue& queue_;
  std::vector<int> components_;
  std::vector<Picoseconds> wake_;
  DramAddressMap map_;
  std::vector<MemoryPartition> partitions_;
  std::vector<PartitionEvent> scratch_;
  std::vector<Bundle> bundles_;
  std::vector<std::int32_t> free_;
  std::array<double, k_traffics> bytes_{};
  std::vector<std::array<float, k_traffics>> series_;
  Picoseconds series_bin_;
  float atom_weight_;  ///< bytes of the GPU's memory that a simulated request stands for
  double period_;
  Picoseconds request_, return_, hit_return_;
  Picoseconds last_served_ = 0;
};

}  // namespace tessera::overlap
