// SPDX-License-Identifier: Apache-2.0
#include "tessera/run/runtime_tables.hpp"

#include <fmt/format.h>

#include <limits>

namespace tessera {
namespace {

constexpr std::int64_t k_most = std::numeric_limits<std::int32_t>::max();

tl::unexpected<Diagnostics> too_much(Plan const& plan, SourceLine const& where, std::string what) {
  return refuse({"E0519",
                 Severity::error,
                 where,
                 fmt::format("{} in plan \"{}\"", what, plan.pipeline.name),
                 {},
                 "compile the plan into the kernel: generate_header() has no such limit"});
}

/// A semaphore set, whose table, if it needs one, goes to the end of `tables.waits`; its place is in `place`.
RuntimeSet set_of(Plan const& plan, SemaphoreSet const& set, RuntimeTables& tables, std::int64_t& place) {
  auto const& producer = plan.pipeline.stages[static_cast<std::size_t>(set.producer)];
  auto const grid = producer.tile_grid();
  auto const before = tables.waits.size();
  RuntimeSet result;
  if (set.map.is_table()) {
    int tiles = 1;
    for (int d = 0; d < k_max_rank; ++d) {
      result.scale[d] = tiles;
      tiles *= grid.extent[d];
    }
    for (auto const semaphore : set.map.table)
      tables.waits.push_back(
          {static_cast<int>(set.first + semaphore),
           static_cast<unsigned>(producer.splits * set.map.members[static_cast<std::size_t>(semaphore)])});
  } else {
    result = runtime_set(set.map, grid, producer.splits, set.first, tables.waits);
  }
  place = tables.waits.size() > before ? static_cast<std::int64_t>(before) : -1;
  return result;
}

/// Tables of one stage; grows `tables`.
class StageTables {
 public:
  StageTables(Plan const& plan, int index, RuntimeTables& tables)
      : plan_(plan),
        stage_(plan.pipeline.stages[static_cast<std::size_t>(index)]),
        index_(index),
        tables_(tables) {}

  Expected<void> add() {
    if (stage_.tiles() >= k_most)
      return too_much(plan_, stage_.where, fmt::format("{} has {} tiles", stage_.name, stage_.tiles()));
    if (stage_.blocks() >= k_most)
      return too_much(plan_, stage_.where, fmt::format("{} has {} blocks", stage_.name, stage_.blocks()));
    switches();
    order();
    if (auto done = operands(); !done) return done;
    chained();
    if (auto done = posts(); !done) return done;
    before_store();
    tables_.stages.push_back(result_);
    tables_.places.push_back(places_);
    return {};
  }

 private:
  void switches() {
    auto const& planned = plan_.stages[static_cast<std::size_t>(index_)];
    auto const duties = duties_of(plan_, index_);
    bool const worker = duties.start == Start::worker;
    result_.index = index_;
    result_.grid = stage_.tile_grid();
    result_.splits = stage_.splits;
    result_.start = duties.start;
    result_.custom_order = planned.custom_order;
    result_.reorder_loads = planned.reorder_loads;
    result_.plain_store = planned.plain_store;
    result_.persistent_blocks = worker ? 0 : planned.persistent_blocks;
    // What a worker does at its start and at its end belongs to its launch.
    result_.triggers_at_start = duties.triggers && !worker;
    result_.completes_after_previous = duties.completes_after && !worker;
    result_.announces_start = duties.announces_start;
    result_.needs_epoch = duties.needs_epoch;
    result_.leaving = leaving_lanes(static_cast<unsigned>(result_.blocks()));
    result_.tickets = static_cast<unsigned>(result_.launched());
  }

  void order() {
    auto const& table = plan_.stages[static_cast<std::size_t>(index_)].order.table;
    if (table.empty()) return;
    places_.order = static_cast<std::int64_t>(tables_.numbers.size());
    tables_.numbers.insert(tables_.numbers.end(), table.begin(), table.end());
  }

  Expected<void> operands() {
    std::vector<int> by_operand[k_runtime_operands];
    for (std::size_t d = 0; d < plan_.pipeline.dependences.size(); ++d) {
      auto const& dependence = plan_.pipeline.dependences[d];
      if (dependence.consumer != index_) continue;
      int const operand = operand_index(stage_, dependence.operand);
      if (operand < 0 || operand >= k_runtime_operands)
        return too_much(plan_, dependence.where,
                        fmt::format("operand \"{}\" of {} is not among the first {}", dependence.operand,
                                    stage_.name, k_runtime_operands));
      auto& entry = result_.operand[operand];
      int const set = plan_.dependences[d].semaphore_set;
      if (!entry.produced && set >= 0) {
        entry.has_set = true;
        entry.set = set_of(plan_, plan_.semaphores[static_cast<std::size_t>(set)], tables_,
                           places_.operand_tables[operand]);
      }
      entry.produced = true;
      entry.waits_for_grid =
          entry.waits_for_grid || kept_by(plan_, plan_.dependences[d]) == KeptBy::grid_wait;
      if (set >= 0) by_operand[operand].push_back(static_cast<int>(d));
    }
    for (int o = 0; o < k_runtime_operands; ++o)
      if (!by_operand[o].empty())
        if (auto done = waits_of(o, by_operand[o]); !done) return done;
    return {};
  }

  /// The first launch of a plan that starts behind whatever was enqueued before: its first operand may come
  /// from there, and its output may still be read there. Operands behind it are weights.
  void chained() {
    auto const& first = plan_.launches.front();
    if (first.holds(index_) && first.start == LaunchStart::early && first.workers == 0)
      result_.operand[0].waits_for_grid = true;
  }

  Expected<void> waits_of(int operand, std::vector<int> const& dependences) {
    auto const first = tables_.waits.size();
    std::vector<std::int32_t> offsets{0};
    for (std::int64_t tile = 0; tile < stage_.tiles(); ++tile) {
      for (int const dependence : dependences)
        for (auto const& awaited : awaited_by(plan_, dependence, tile)) {
          if (awaited.semaphore >= k_most || awaited.value >= k_most)
            return too_much(plan_, stage_.where,
                            fmt::format("{} has {} semaphores or more", stage_.name, k_most));
          tables_.waits.push_back(
              {static_cast<int>(awaited.semaphore), static_cast<unsigned>(awaited.value)});
        }
      if (static_cast<std::int64_t>(tables_.waits.size() - first) >= k_most)
        return too_much(plan_, stage_.where, fmt::format("{} has {} waits or more", stage_.name, k_most));
      offsets.push_back(static_cast<std::int32_t>(tables_.waits.size() - first));
    }
    places_.offsets[operand] = static_cast<std::int64_t>(tables_.numbers.size());
    places_.operand_waits[operand] = static_cast<std::int64_t>(first);
    tables_.numbers.insert(tables_.numbers.end(), offsets.begin(), offsets.end());
    return {};
  }

  Expected<void> posts() {
    std::vector<SemaphoreSet const*> further;
    for (auto const& set : plan_.semaphores) {
      if (set.producer != index_) continue;
      if (set.first + set.count >= k_most)
        return too_much(plan_, stage_.where, fmt::format("{} semaphores", set.first + set.count));
      if (result_.posts++ == 0)
        result_.post = set_of(plan_, set, tables_, places_.post_table);
      else
        further.push_back(&set);
    }
    if (further.empty()) return {};
    places_.further = static_cast<std::int64_t>(tables_.waits.size());
    for (std::int64_t tile = 0; tile < stage_.tiles(); ++tile)
      for (auto const* const set : further) {
        auto const semaphore = set->map.semaphore_of(result_.grid, tile_of(result_.grid, tile));
        auto const posts = set->map.tiles_of(result_.grid, semaphore) * stage_.splits;
        tables_.waits.push_back({static_cast<int>(set->first + semaphore), static_cast<unsigned>(posts)});
      }
    return {};
  }

  void before_store() {
    for (auto const& edge : plan_.reuse_edges) {
      if (edge.writer != index_) continue;
      auto const kept = kept_by(plan_, edge);
      result_.stores_after_grid = result_.stores_after_grid || kept == KeptBy::grid_wait;
      if (kept != KeptBy::semaphores) continue;
      auto const& set = plan_.semaphores[static_cast<std::size_t>(edge.semaphore_set)];
      auto const& producer = plan_.pipeline.stages[static_cast<std::size_t>(set.producer)];
      if (places_.before_store < 0) places_.before_store = static_cast<std::int64_t>(tables_.waits.size());
      for (std::int64_t i = 0; i < set.count; ++i) {
        auto const posts = set.map.tiles_of(producer.tile_grid(), i) * producer.splits;
        tables_.waits.push_back({static_cast<int>(set.first + i), static_cast<unsigned>(posts)});
        ++result_.before_stores;
      }
    }
  }

  Plan const& plan_;
  Stage const& stage_;
  int index_;
  RuntimeTables& tables_;
  RuntimeStage result_;
  RuntimeTables::Places places_;
};

}  // namespace

int operand_index(Stage const& stage, std::string const& name) {
  for (std::size_t i = 0; i < stage.operands.size(); ++i)
    if (stage.operands[i].name == name) return static_cast<int>(i);
  // A pipeline without costs names its operands by letter.
  return name.size() == 1 && name[0] >= 'a' && name[0] < 'a' + k_runtime_operands ? name[0] - 'a' : -1;
}

RuntimeStage RuntimeTables::stage(int index, std::int32_t const* numbers_at,
                                  RuntimeWait const* waits_at) const {
  auto result = stages[static_cast<std::size_t>(index)];
  auto const& place = places[static_cast<std::size_t>(index)];
  if (place.order >= 0) result.order = numbers_at + place.order;
  if (place.post_table >= 0) result.post.table = waits_at + place.post_table;
  if (place.further >= 0) result.further = waits_at + place.further;
  for (int o = 0; o < k_runtime_operands; ++o) {
    if (place.operand_tables[o] >= 0) result.operand[o].set.table = waits_at + place.operand_tables[o];
    if (place.offsets[o] < 0) continue;
    result.operand[o].offsets = numbers_at + place.offsets[o];
    result.operand[o].waits = waits_at + place.operand_waits[o];
  }
  if (place.before_store >= 0) result.before_store = waits_at + place.before_store;
  return result;
}

RuntimeTickets RuntimeTables::tickets(int index, std::int32_t const* numbers_at) const {
  auto result = launches[static_cast<std::size_t>(index)];
  auto const table = ticket_tables[static_cast<std::size_t>(index)];
  if (table >= 0) result.table = numbers_at + table;
  return result;
}

Expected<RuntimeTables> describe_stages(Plan const& plan) {
  RuntimeTables tables;
  for (int s = 0; s < static_cast<int>(plan.stages.size()); ++s)
    if (auto done = StageTables(plan, s, tables).add(); !done) return tl::make_unexpected(done.error());
  for (auto const& launch : plan.launches) {
    auto const duties = duties_of(plan, launch.first);
    RuntimeTickets described{launch.first,    launch.stages,          0,      launch.workers,
                             duties.triggers, duties.completes_after, nullptr};
    for (int s = launch.first; s < launch.end(); ++s)
      described.tickets += plan.pipeline.stages[static_cast<std::size_t>(s)].blocks();
    tables.launches.push_back(described);
    tables.ticket_tables.push_back(launch.tickets.empty() ? -1
                                                          : static_cast<std::int64_t>(tables.numbers.size()));
    for (auto const& ticket : launch.tickets) {
      tables.numbers.push_back(ticket.stage);
      tables.numbers.push_back(ticket.position);
    }
  }
  return tables;
}

}  // namespace tessera
