// SPDX-License-Identifier: Apache-2.0
// Tile functions for any pipeline that notice every missing or early wait: each block's value is a
// hash of its name, the launch, and the values of all blocks that it reads.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "support/real_clock.hpp"
#include "tessera/describe/tile_relation.hpp"
#include "tessera/run/interpret.hpp"

namespace tessera {

class Stamps {
 public:
  explicit Stamps(Pipeline const& pipeline) : pipeline_(pipeline) {
    for (auto const& stage : pipeline_.stages) {
      values_.emplace_back(static_cast<std::size_t>(stage.blocks()), k_poison);
      launches_.emplace_back(static_cast<std::size_t>(stage.blocks()), 0);
      reads_.emplace_back(static_cast<std::size_t>(stage.tiles()));
    }
    for (auto const& dependence : pipeline_.dependences) {
      TileRelation const relation(pipeline_, dependence);
      auto& reads = reads_[static_cast<std::size_t>(dependence.consumer)];
      std::vector<std::int64_t> tiles;
      for (std::size_t tile = 0; tile < reads.size(); ++tile) {
        relation.producers_of(static_cast<std::int64_t>(tile), tiles);
        for (auto const producer : tiles) reads[tile].push_back({dependence.producer, producer});
      }
    }
  }

  /// One function per stage. `delay_stage`'s blocks are slow, so that others would overtake them if they
  /// could.
  std::vector<TileFunction> functions(int delay_stage = -1) {
    std::vector<TileFunction> result;
    for (int s = 0; s < static_cast<int>(values_.size()); ++s)
      result.push_back([this, s, delay_stage](std::int64_t tile, int split) {
        if (s == delay_stage) std::this_thread::sleep_for(std::chrono::milliseconds(20));
        auto const block = index(s, tile, split);
        auto const launch = launches_[at(s)][block]++;
        values_[at(s)][block] = value(s, tile, split, launch);
      });
    return result;
  }

  /// `first`'s blocks hold their values back until one of `second` has computed. Where `second` waits for
  /// `first` that is a hang, which k_patience ends; a missing wait gives a wrong value every time.
  std::vector<TileFunction> functions_in_wrong_order(int first, int second) {
    auto const overtaken = std::make_shared<std::atomic<bool>>(false);
    auto result = functions();
    result[at(first)] = [overtaken, compute = result[at(first)]](std::int64_t tile, int split) {
      support::comes_true([&] { return overtaken->load(); });
      compute(tile, split);
    };
    result[at(second)] = [overtaken, compute = result[at(second)]](std::int64_t tile, int split) {
      compute(tile, split);
      *overtaken = true;
    };
    return result;
  }

  /// Is every block what running stage after stage gives, in the last of so many launches?
  bool right(int launches) {
    auto const seen = values_;
    for (int s = 0; s < static_cast<int>(values_.size()); ++s) {
      auto const& stage = pipeline_.stages[at(s)];
      for (std::int64_t tile = 0; tile < stage.tiles(); ++tile)
        for (int split = 0; split < stage.splits; ++split)
          values_[at(s)][index(s, tile, split)] = value(s, tile, split, launches - 1);
    }
    return seen == values_;
  }

 private:
  static constexpr std::uint64_t k_poison = 0xDEADBEEFDEADBEEF;
  struct Read {
    int stage;
    std::int64_t tile;
  };
  static std::size_t at(int stage) { return static_cast<std::size_t>(stage); }
  std::size_t index(int stage, std::int64_t tile, int split) const {
    return static_cast<std::size_t>(split * pipeline_.stages[at(stage)].tiles() + tile);
  }
  std::uint64_t value(int stage, std::int64_t tile, int split, int launch) const {
    std::uint64_t hash = 0xCBF29CE484222325;
    auto const mix = [&](std::uint64_t word) { hash = (hash ^ word) * 0x100000001B3 + (hash >> 29); };
    mix(static_cast<std::uint64_t>(stage));
    mix(static_cast<std::uint64_t>(tile));
    mix(static_cast<std::uint64_t>(split));
    mix(static_cast<std::uint64_t>(launch));
    for (auto const& read : reads_[at(stage)][static_cast<std::size_t>(tile)])
      for (int s = 0; s < pipeline_.stages[at(read.stage)].splits; ++s)
        mix(values_[at(read.stage)][index(read.stage, read.tile, s)]);
    return hash;
  }

  Pipeline pipeline_;
  std::vector<std::vector<std::uint64_t>> values_;  // by stage, split * tiles + tile
  std::vector<std::vector<int>> launches_;
  std::vector<std::vector<std::vector<Read>>> reads_;
};

}  // namespace tessera
