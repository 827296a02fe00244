// SPDX-License-Identifier: Apache-2.0
// What happened when: one type for a simulated and a measured run, so that they can be drawn,
// compared and subtracted by the same code.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

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
  std::int64_t waiting = 0;  ///< total time blocked on semaphores or the grid-wide wait

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
  double dram_busy = 0;  ///< share of the run in which DRAM was the limiter
  std::vector<StageSpan> stages;
  std::vector<TileRecord> tiles;  ///< by (started, stage, tile, split); empty if not recorded

  bool operator==(Timeline const&) const = default;
};

}  // namespace tessera
