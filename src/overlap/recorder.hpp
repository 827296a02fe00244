// SPDX-License-Identifier: Apache-2.0
// What one GPU of a run did and when, on its way into a Timeline.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "simulate/event_queue.hpp"
#include "tessera/overlap/run.hpp"

namespace tessera::overlap {

using simulation::Picoseconds;

/// Told by a node what its blocks and transfers do. Blocks stand in places, numbered SM by SM, then round
/// again: place p is slot p / sms of SM p % sms. What a block does not do, it waits for.
class Recorder {
 public:
  Recorder(MachineProfile const& machine, int gpu, int sms, std::size_t places);

  // A block's life, in this order, each at the time when it begins.
  void begins(int place, std::int64_t tile, Picoseconds now, Picoseconds set_up);
  /// Its operands are there, but the matrix unit belongs to another block.
  void blocked(int place, Picoseconds now);
  void computes(int place, Picoseconds from, Picoseconds to);
  void stores(int place, Picoseconds from, Picoseconds to);
  void ends(int place, Picoseconds now);
  /// The end of a block that only moves bytes, all its life long.
  void moved(int place, Picoseconds now);

  /// A transfer whose last byte leaves at `left`, in the order in which the link takes them.
  void sends(int peer, std::int64_t chunk, Picoseconds left, double bytes);

  // One read of the copy engine; many are under way at once.
  void read_begins(std::int64_t chunk, Picoseconds now, double bytes);
  void read_ends(std::int64_t chunk, Picoseconds now);

  std::vector<TileRecord> take_blocks() { return std::move(blocks_); }
  Picoseconds busy() const;  ///< of all SMs, with at least one block that does not wait
  std::int64_t most_blocks_of_a_place() const;
  /// Its tracks and their spans, behind those that are there.
  void add_tracks(Timeline& timeline) const;

 private:
  struct Place {
    TileRecord block;
    Picoseconds busy_until = 0;
    Picoseconds blocked_at = -1;
    bool computed = false;
    std::int64_t blocks = 0;
  };
  struct Sm {
    Picoseconds busy = 0, busy_until = 0;
  };
  struct Copy {
    std::size_t span = 0;  ///< of copies_, the chunk's latest
    std::int64_t under_way = 0;
  };
  void works(int place, Picoseconds from, Picoseconds to);
  Place& at(int place) { return places_[static_cast<std::size_t>(place)]; }

  int gpu_, sms_;
  double ps_per_link_byte_;
  std::vector<Place> places_;
  std::vector<Sm> busy_;
  std::vector<TileRecord> blocks_;
  std::map<int, std::vector<TrackSpan>> links_;  ///< by peer
  std::vector<TrackSpan> copies_;
  std::map<std::int64_t, Copy> copy_of_chunk_;
};

/// How a recording is called, beside what it holds.
struct RecordingNames {
  std::string pipeline;
  std::string mechanism;
  StageSpan stage;  ///< name, tiles and extent
};

/// Of GPUs that ran side by side: a recorder and a result for each, and the result of all. `series_ps`: the
/// width of the results' bins; beyond 2048 bins neighbours are joined.
Timeline timeline_of(std::vector<Recorder> recorders, std::vector<OverlapRun> const& runs,
                     OverlapRun const& all, MachineProfile const& machine, RecordingNames names,
                     std::int64_t series_ps);

/// These options with the bins of memory traffic that a recording needs.
OverlapOptions with_series(OverlapOptions options);

}  // namespace tessera::overlap
