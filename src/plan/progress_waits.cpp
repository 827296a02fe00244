// SPDX-License-Identifier: Apache-2.0
#include "progress_waits.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <unordered_map>
#include <utility>

#include "tessera/describe/tile_relation.hpp"

namespace tessera::progress {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

}  // namespace

Waits::Waits(Plan const& plan) : plan_(plan), stages_(plan.pipeline.stages.size()) {
  for (auto const& set : plan.semaphores) {
    auto const grid = plan.pipeline.stages[at(set.producer)].tile_grid();
    semaphores_ = std::max(semaphores_, set.first + std::max<std::int64_t>(set.count, set.map.count(grid)));
  }
  for (auto const& planned : plan.dependences) add_dependence(planned);
  for (auto const& edge : plan.reuse_edges) add_reuse(edge);
}

void Waits::add_dependence(PlannedDependence const& planned) {
  if (planned.semaphore_set < 0) return;
  auto const& dependence = plan_.pipeline.dependences[at(planned.dependence)];
  auto const& set = plan_.semaphores[at(planned.semaphore_set)];
  auto const& poster = plan_.pipeline.stages[at(set.producer)];
  auto const grid = poster.tile_grid();
  auto const tiles = plan_.pipeline.stages[at(dependence.consumer)].tiles();
  auto& of_stage = stages_[at(dependence.consumer)];
  of_stage.resize(at(tiles));

  TileRelation const relation(plan_.pipeline, dependence);
  std::unordered_map<std::string, std::int32_t> known;
  std::vector<TileRelation::Box> boxes;
  std::vector<std::int64_t> producers;
  std::string key, last_key;
  std::int32_t last = -1;
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    relation.boxes_of(tile, boxes);
    key.resize(boxes.size() * sizeof(TileRelation::Box));
    if (!boxes.empty()) std::memcpy(key.data(), boxes.data(), key.size());
    if (last < 0 || key != last_key) {
      auto const [place, is_new] = known.try_emplace(key, static_cast<std::int32_t>(lists_.size()));
      if (is_new) {
        auto& list = lists_.emplace_back();
        relation.producers_of(tile, producers);
        for (auto const producer : producers) {
          auto const semaphore = set.map.semaphore_of(grid, tile_of(grid, producer));
          list.push_back({set.first + semaphore, set.map.tiles_of(grid, semaphore) * poster.splits});
        }
        std::sort(list.begin(), list.end());
        list.erase(std::unique(list.begin(), list.end()), list.end());
        if (!list.empty()) semaphores_ = std::max(semaphores_, list.back().semaphore + 1);
      }
      last = place->second;
      std::swap(last_key, key);
    }
    if (!lists_[at(last)].empty()) of_stage[at(tile)].push_back(last);
  }
}

void Waits::add_reuse(ReuseEdge const& edge) {
  if (edge.semaphore_set < 0) return;
  auto const& set = plan_.semaphores[at(edge.semaphore_set)];
  auto const& poster = plan_.pipeline.stages[at(set.producer)];
  auto const grid = poster.tile_grid();
  auto const tiles = plan_.pipeline.stages[at(edge.writer)].tiles();
  auto& of_stage = stages_[at(edge.writer)];
  of_stage.resize(at(tiles));
  auto const list = static_cast<std::int32_t>(lists_.size());
  lists_.emplace_back();
  for (std::int64_t semaphore = 0; semaphore < set.count; ++semaphore)
    lists_.back().push_back({set.first + semaphore, set.map.tiles_of(grid, semaphore) * poster.splits});
  for (auto& of_tile : of_stage) of_tile.push_back(list);
}

bool Waits::waits(int stage, std::int64_t tile) const { return !lists_of(stage, tile).empty(); }

std::int64_t Waits::waiting_blocks(int stage) const {
  std::int64_t count = 0;
  for (auto const& of_tile : stages_[at(stage)]) count += of_tile.empty() ? 0 : 1;
  return count * plan_.pipeline.stages[at(stage)].splits;
}

Flow::Flow(Waits const& waits) : waits_(waits) {
  for (auto const& stage : waits.plan().pipeline.stages) {
    states_.emplace_back(at(stage.blocks()), State::unstarted);
    left_ += stage.blocks();
  }
  counts_.resize(at(waits.semaphores()));
  watchers_.resize(at(waits.semaphores()));
}

bool Flow::find_unmet(Block block, Need& need) const {
  auto const& plan = waits_.plan();
  auto const tile =
      block_work(plan.pipeline.stages[at(block.stage)], plan.stages[at(block.stage)], block.index).tile;
  for (auto const list : waits_.lists_of(block.stage, tile))
    for (auto const& one : waits_.needs(list))
      if (counts_[at(one.semaphore)] < one.value) {
        need = one;
        return true;
      }
  return false;
}

void Flow::start(Block block, std::vector<Block>& finished) {
  auto& state = states_[at(block.stage)][at(block.index)];
  if (state != State::unstarted) return;
  state = State::started;
  ready_.assign(1, block);
  auto const& plan = waits_.plan();
  while (!ready_.empty()) {
    auto const one = ready_.back();
    ready_.pop_back();
    if (Need need{}; find_unmet(one, need)) {
      watchers_[at(need.semaphore)].push_back({need.value, one});
      continue;
    }
    states_[at(one.stage)][at(one.index)] = State::finished;
    --left_;
    finished.push_back(one);
    auto const& stage = plan.pipeline.stages[at(one.stage)];
    auto const grid = stage.tile_grid();
    auto const tile = tile_of(grid, block_work(stage, plan.stages[at(one.stage)], one.index).tile);
    for (auto const& set : plan.semaphores) {
      if (set.producer != one.stage) continue;
      auto const semaphore = at(set.first + set.map.semaphore_of(grid, tile));
      auto const count = ++counts_[semaphore];
      auto& watchers = watchers_[semaphore];
      for (std::size_t i = 0; i < watchers.size();) {
        if (watchers[i].first > count) {
          ++i;
          continue;
        }
        ready_.push_back(watchers[i].second);
        watchers[i] = watchers.back();
        watchers.pop_back();
      }
    }
  }
}

Need Flow::unmet(Block block) const {
  Need need{-1, 0};
  find_unmet(block, need);
  return need;
}

}  // namespace tessera::progress
