// SPDX-License-Identifier: Apache-2.0
#include "role_tiles.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tessera/describe/tile_relation.hpp"
#include "tessera/plan/deal.hpp"

namespace tessera::simulation {

std::vector<std::vector<RoleTile>> dealt_tiles(RoleLoop const& loop) {
  auto const& body = loop.plan.loop.body.stages;
  // Of a period only what the launch has: lists begin alike however long they are.
  auto const listed = std::min<long long>(loop.plan.period, loop.iterations);
  std::vector<StageToDeal> stages;
  for (long long n = 0; n < listed; ++n)
    for (std::size_t s = 0; s < body.size(); ++s)
      stages.push_back({body[s].blocks(), loop.tile_bytes.empty() ? 1 : loop.tile_bytes[s]});
  auto const ahead = loop.tile_bytes.empty() ? 0 : loop.rings.slots * least_bytes(loop).slot;
  int const workers = loop.plan.plan.launches.front().workers;
  auto const dealt = deal(stages, workers, ahead);
  std::vector<std::vector<RoleTile>> result(static_cast<std::size_t>(workers));
  for (int w = 0; w < workers; ++w) {
    DealtWalk walk(dealt.lists(dealt.tiles.data()), w, (loop.iterations + listed - 1) / listed);
    DealtTile tile;
    long long period = 0;
    for (long long place = 0; walk.find(place, tile, period); ++place) {
      auto const of_body = static_cast<int>(body.size());
      auto const iteration = period * listed + tile.stage / of_body;
      if (iteration < loop.iterations)
        result[static_cast<std::size_t>(w)].push_back({iteration, tile.stage % of_body, tile.tile});
    }
  }
  return result;
}

RoleSlotBytes least_bytes(RoleLoop const& loop) {
  auto const& tokens = loop.plan.tokens;
  auto const& body = loop.plan.loop.body;
  auto const kilobytes = [](double bytes) { return static_cast<long long>(std::ceil(bytes / 1024)) * 1024; };
  RoleSlotBytes least;
  for (std::size_t s = 0; s < loop.work.size(); ++s) {
    auto const& work = loop.work[s];
    if (work.slots == 0) continue;
    auto const is_words = [&](Dependence const& one) {
      auto const& output = body.stages[static_cast<std::size_t>(one.producer)].output;
      return one.consumer == static_cast<int>(s) &&
             std::find(tokens.begin(), tokens.end(), output) != tokens.end();
    };
    bool const words = std::any_of(body.dependences.begin(), body.dependences.end(), is_words) ||
                       std::any_of(loop.plan.loop.carried.begin(), loop.plan.loop.carried.end(),
                                   [&](CarriedDependence const& one) { return is_words(one.dependence); });
    least.slot = std::max(least.slot, kilobytes(work.slot_bytes));
    // Half of a word is the iteration, which is not stored.
    least.late_slot = std::max(least.late_slot, kilobytes(work.late_slot_bytes / (words ? 2 : 1)));
  }
  return least;
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
