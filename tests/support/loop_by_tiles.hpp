// SPDX-License-Identifier: Apache-2.0
// A loop written out tile by tile, for explore(): each tile of each iteration is a stage of its own, so that
// waits are as exact as the question that is asked.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "support/loop_meaning.hpp"
#include "support/plans.hpp"

namespace tessera::support {

/// One persistent launch in stage order, with the tiles of a stage up or down.
struct ByTiles {
  int workers = 1;
  bool down = false;
  /// Who overwrites a copy waits, too, until everybody has read what was meant to be read there. A schedule
  /// that gets stuck for that is one in which, without these waits, a tile is overwritten before it is read.
  bool guarded = false;
};

class LoopByTiles {
 public:
  LoopByTiles(Loop const& loop, int iterations, ByTiles const& how)
      : loop_(loop), iterations_(iterations), how_(how) {}

  Plan plan() {
    for (int n = 0; n < iterations_; ++n)
      for (int s = 0; s < stages(); ++s)
        for (int i = 0; i < tiles_of(s); ++i) add_tile(n, s, how_.down ? tiles_of(s) - 1 - i : i);
    for (int n = 0; n < iterations_; ++n)
      for (int s = 0; s < stages(); ++s)
        for (int tile = 0; tile < tiles_of(s); ++tile) add_waits({n, s, tile});
    Launch launch{0, static_cast<int>(plan_.stages.size()), LaunchStart::in_order, false, how_.workers, {}};
    plan_.launches = {launch};
    return std::move(plan_);
  }

 private:
  struct Place {
    int iteration, stage, tile;
    bool operator==(Place const&) const = default;
  };

  int stages() const { return static_cast<int>(loop_.body.stages.size()); }
  Stage const& stage(int s) const { return loop_.body.stages[static_cast<std::size_t>(s)]; }
  int tiles_of(int s) const { return static_cast<int>(stage(s).tiles()); }
  int index_of(Place const& at) const {
    int index = 0, in_iteration = 0;
    for (int s = 0; s < stages(); ++s) {
      if (s < at.stage) index += tiles_of(s);
      in_iteration += tiles_of(s);
    }
    int const last = tiles_of(at.stage) - 1;
    return at.iteration * in_iteration + index + (how_.down ? last - at.tile : at.tile);
  }

  void add_tile(int n, int s, int tile) {
    auto const index = static_cast<int>(plan_.stages.size());
    plan_.pipeline.stages.push_back(make_stage(fmt::format("{}_{}_{}", stage(s).name, n, tile), 1, 1));
    plan_.stages.emplace_back();
    plan_.semaphores.push_back({index, {}, "TileSync", index, 1});
  }

  void wait(Place const& consumer, Place const& producer) {
    int const from = index_of(producer);
    auto& all = plan_.pipeline.dependences;
    plan_.dependences.push_back({static_cast<int>(all.size()), from});
    all.push_back(tile_dependence(index_of(consumer), from));
  }

  void add_waits(Place const& at) {
    loop_table::for_each_read(loop_, at.stage, [&](Dependence const& dependence, int distance) {
      for (int tile = 0; tile < tiles_of(dependence.producer); ++tile) {
        if (!loop_table::reads(loop_.body, dependence, at.tile, tile)) continue;
        Place const read{at.iteration - distance, dependence.producer, tile};
        if (read.iteration >= 0) wait(at, read);
        if (how_.guarded) guard(read, at);
      }
    });
    if (how_.guarded) guard(at, at);
  }
  /// The next tile of the launch that overwrites `value` waits for the user. A tile reads before it stores.
  void guard(Place const& value, Place const& user) {
    int const copies = copies_of(loop_, stage(value.stage).output);
    if (copies == BufferCopies::each_iteration) return;
    auto writer = value;
    do writer.iteration += copies;
    while (writer.iteration < 0);
    if (writer.iteration < iterations_ && !(writer == user)) wait(writer, user);
  }

  Loop const& loop_;
  int iterations_;
  ByTiles how_;
  Plan plan_;
};

}  // namespace tessera::support
