// SPDX-License-Identifier: Apache-2.0
// What happened when: one type for all simulated and measured runs, so that they can be drawn, compared and
// subtracted by the same code.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

/// What a block waited for, in picoseconds; all zero where a run tells no causes apart.
struct WaitCauses {
  std::int64_t operands = 0;      ///< slices that L2 or memory had not delivered yet
  std::int64_t matrix_unit = 0;   ///< another block of the SM computed
  std::int64_t before_ready = 0;  ///< the part of these two that ended at `ready`
  std::int64_t stores = 0;        ///< memory took no more stores; inside [loaded, stored]

  bool operator==(WaitCauses const&) const = default;
};

/// One block's life. Times in integer picoseconds since the chain was submitted. In order:
/// started <= ready <= loaded <= stored <= posted; waiting is inside [started, loaded].
struct TileRecord {
  std::int32_t stage = 0;
  std::int32_t split = 0;
  std::int64_t tile = 0;  ///< linear
  std::int32_t gpu = 0;
  std::int32_t sm = 0;
  std::int32_t slot = 0;     ///< which of the SM's resident blocks
  std::int64_t started = 0;  ///< block resident (or ticket drawn by a persistent worker)
  std::int64_t ready = 0;    ///< first awaited semaphore seen
  std::int64_t loaded = 0;   ///< main loop done
  std::int64_t stored = 0;   ///< output stored
  std::int64_t posted = 0;   ///< semaphores visible; the block's end
  std::int64_t waiting = 0;  ///< total time blocked: on semaphores, the grid-wide wait, or the causes below
  WaitCauses causes = {};    ///< operands and matrix_unit add up to `waiting`; stores come on top

  bool operator==(TileRecord const&) const = default;
};

struct StageSpan {
  std::string name;
  std::int64_t first_start = 0;  ///< ps
  std::int64_t last_end = 0;     ///< ps
  std::int64_t tiles = 0;
  int splits = 1;
  std::vector<std::int64_t> extent;  ///< grid, to name tiles by coordinates
  std::string variant = {};          ///< StagePlan::variant

  bool operator==(StageSpan const&) const = default;
};

/// A row beside the SMs: a copy engine, a link. Its spans do not overlap.
struct Track {
  std::string name;
  std::string item;  ///< what the numbers of its spans count: "chunk"
  int gpu = 0;

  bool operator==(Track const&) const = default;
};

/// A track is busy with one item without a pause.
struct TrackSpan {
  std::int32_t track = 0;  ///< index into Timeline::tracks
  std::int64_t item = 0;
  std::int64_t from = 0;       ///< ps
  std::int64_t to = 0;         ///< ps
  std::int64_t transfers = 1;  ///< that were joined into this span
  std::int64_t bytes = 0;

  bool operator==(TrackSpan const&) const = default;
};

/// Bytes that moved in equal bins of time, by class.
struct ByteCounter {
  std::string name;  ///< "DRAM"
  int gpu = 0;
  std::int64_t bin = 1;  ///< ps, the first begins at 0
  std::vector<std::string> classes;
  std::vector<std::int64_t> bytes;  ///< the classes of the first bin, then those of the second, ...

  bool operator==(ByteCounter const&) const = default;
};

struct Timeline {
  std::string pipeline;
  std::string machine;
  std::string mechanism;
  bool measured = false;   ///< false: simulated
  bool by_launch = false;  ///< measured around launches: stages of launches that start early, one after the
                           ///< other, have the times of all of them; no tiles
  std::int64_t end = 0;    ///< ps, the whole chain
  int gpus = 1;
  int sms = 0;  ///< per GPU
  int slots_per_sm = 1;
  double busy = 0;   ///< share of SM time with at least one block not waiting
  double waves = 0;  ///< rounds of block slots that the chain took: longest chain of
                     ///< blocks run one after another on one slot
  double dram_bytes = 0;
  double dram_busy = 0;  ///< share of the run in which DRAM was the limiter; of a run with counters: in which
                         ///< its data bus moved something
  std::vector<StageSpan> stages;
  std::vector<TileRecord> tiles;  ///< by (started, stage, tile, split); empty if not recorded
  std::vector<Track> tracks = {};
  std::vector<TrackSpan> spans = {};  ///< by (track, from)
  std::vector<ByteCounter> counters = {};

  bool operator==(Timeline const&) const = default;
};

}  // namespace tessera
