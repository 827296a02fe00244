// SPDX-License-Identifier: Apache-2.0
#include "role_tiles.hpp"

#include <algorithm>
#include <numeric>

#include "tessera/describe/tile_relation.hpp"

namespace tessera::simulation {

std::vector<RoleTile> tiles_of(RoleLoop const& loop, int worker) {
  std::vector<RoleTile> result;
  auto const& stages = loop.plan.loop.body.stages;
  std::int64_t rest = worker;
  for (long long n = 0; n < loop.iterations; ++n)
    for (std::size_t s = 0; s < stages.size(); ++s) {
      for (; rest < stages[s].blocks(); rest += loop.plan.plan.launches.front().workers)
        result.push_back({n, static_cast<int>(s), static_cast<int>(rest)});
      rest -= stages[s].blocks();
    }
  return result;
}

double awaited_tiles(RoleLoop const& loop) {
  auto const& body = loop.plan.loop.body;
  double sum = 0;
  std::vector<TileRelation::Box> boxes;
  auto const add = [&](Dependence const& dependence) {
    TileRelation const relation(body, dependence);
    auto const tiles = body.stages[static_cast<std::size_t>(dependence.consumer)].blocks();
    for (std::int64_t t = 0; t < tiles; ++t) {
      relation.boxes_of(t, boxes);
      for (auto const& box : boxes) {
        double volume = 1;
        for (int d = 0; d < k_max_rank; ++d) volume *= box.end[d] - box.begin[d];
        sum += volume;
      }
    }
  };
  for (auto const& dependence : body.dependences) add(dependence);
  for (auto const& carried : loop.plan.loop.carried) add(carried.dependence);
  return sum;
}

RoleTiles::RoleTiles(RoleLoop const& loop)
    : stages_(static_cast<int>(loop.plan.loop.body.stages.size())), period_(loop.plan.period) {
  auto const& body = loop.plan.loop.body;
  edges_.resize(body.stages.size());
  auto const add = [&](Dependence const& dependence, int distance) {
    Edge edge{dependence.producer, distance, {}};
    TileRelation const relation(body, dependence);
    std::vector<std::int64_t> producers;
    auto const tiles = body.stages[static_cast<std::size_t>(dependence.consumer)].blocks();
    for (std::int64_t t = 0; t < tiles; ++t) {
      relation.producers_of(t, producers);
      edge.tiles.emplace_back(producers.begin(), producers.end());
    }
    edges_[static_cast<std::size_t>(dependence.consumer)].push_back(std::move(edge));
  };
  for (auto const& dependence : body.dependences) add(dependence, 0);
  for (auto const& carried : loop.plan.loop.carried) add(carried.dependence, carried.distance);
  for (auto const& edge : loop.plan.plan.reuse_edges) reuses_.push_back({edge.writer, edge.reader, 0});
  for (auto const& reuse : loop.plan.reuses) reuses_.push_back({reuse.writer, reuse.reader, reuse.distance});
  auto const& tokens = loop.plan.tokens;
  for (auto const& stage : body.stages) {
    words_.push_back(std::find(tokens.begin(), tokens.end(), stage.output) != tokens.end());
    auto& all = all_.emplace_back(static_cast<std::size_t>(stage.blocks()));
    std::iota(all.begin(), all.end(), 0);
  }
  instances_.resize(static_cast<std::size_t>(loop.iterations * stages_));
}

RoleWait RoleTiles::input(RoleTile const& tile) const {
  RoleWait wait;
  for (auto const& edge : edges_[static_cast<std::size_t>(tile.stage)]) {
    if (tile.iteration < edge.distance) continue;  // it was there before the loop
    auto const& tiles = edge.tiles[static_cast<std::size_t>(tile.tile)];
    wait.lists.push_back({tile.iteration - edge.distance, edge.producer, &tiles});
  }
  return wait;
}

void RoleTiles::need(RoleWait& wait, int part, int parts) {
  for (auto& list : wait.lists) {
    auto const all = list.tiles->size() * static_cast<std::size_t>(part);
    list.count = (all + static_cast<std::size_t>(parts) - 1) / static_cast<std::size_t>(parts);
  }
}

bool RoleTiles::reads_words(RoleTile const& tile) const {
  auto const& edges = edges_[static_cast<std::size_t>(tile.stage)];
  return std::any_of(edges.begin(), edges.end(), [&](Edge const& edge) {
    return tile.iteration >= edge.distance && writes_words(edge.producer);
  });
}

RoleWait RoleTiles::before_stores(RoleTile const& tile) const {
  RoleWait wait;
  auto const period = tile.iteration / period_;
  auto const of_period = static_cast<int>(tile.iteration % period_) * stages_ + tile.stage;
  for (auto const& reuse : reuses_) {
    if (reuse.writer != of_period || period < reuse.distance) continue;
    auto const iteration = (period - reuse.distance) * period_ + reuse.reader / stages_;
    auto const& tiles = all_[static_cast<std::size_t>(reuse.reader % stages_)];
    wait.lists.push_back({iteration, reuse.reader % stages_, &tiles, tiles.size()});
  }
  return wait;
}

RoleTiles::Instance& RoleTiles::instance(long long iteration, int stage) {
  auto& one = instances_[static_cast<std::size_t>(iteration * stages_ + stage)];
  if (one.seen.empty()) one.seen.assign(all_[static_cast<std::size_t>(stage)].size(), k_never);
  return one;
}

bool RoleTiles::look(RoleWait& wait, int waiter) {
  for (auto& list : wait.lists) {
    auto& producer = instance(list.iteration, list.stage);
    for (; list.at < list.count; ++list.at) {
      int const tile = (*list.tiles)[list.at];
      auto const seen = producer.seen[static_cast<std::size_t>(tile)];
      if (seen == k_never) {
        producer.waiters[tile].push_back(waiter);
        return false;
      }
      wait.seen = std::max(wait.seen, seen);
    }
  }
  return true;
}

std::vector<int> RoleTiles::complete(RoleTile const& tile, Picoseconds seen) {
  auto& one = instance(tile.iteration, tile.stage);
  one.seen[static_cast<std::size_t>(tile.tile)] = seen;
  auto const found = one.waiters.find(tile.tile);
  if (found == one.waiters.end()) return {};
  auto result = std::move(found->second);
  one.waiters.erase(found);
  return result;
}

}  // namespace tessera::simulation
