// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tessera/run/stall.hpp"
#include "tessera/sync/data_token.cuh"

namespace tessera {
namespace {

constexpr std::size_t k_shown_tiles = 8;

Stage const& stage_at(Plan const& plan, int index) {
  return plan.pipeline.stages[static_cast<std::size_t>(index)];
}

std::string place_of(Stage const& stage, std::int64_t linear) {
  auto const tile = tile_of(stage.tile_grid(), linear);
  std::string result = stage.name + " tile (";
  for (std::size_t d = 0; d < stage.grid.size(); ++d)
    result += fmt::format("{}{}", d > 0 ? ", " : "", tile.at[d]);
  return result + ")";
}

SemaphoreSet const* set_with(Plan const& plan, std::int64_t semaphore) {
  for (auto const& set : plan.semaphores)
    if (semaphore >= set.first && semaphore < set.first + set.count) return &set;
  return nullptr;
}

std::int64_t posts_of(Plan const& plan, SemaphoreSet const& set, std::int64_t semaphore) {
  auto const& producer = stage_at(plan, set.producer);
  return set.map.tiles_of(producer.tile_grid(), semaphore - set.first) * producer.splits;
}

/// Posts that a semaphore has seen in the launch `epoch`, cut to what it can have seen.
std::int64_t posted(unsigned seen, std::int64_t value, std::int64_t epoch) {
  auto const base = static_cast<unsigned>(epoch * value);
  auto const now = static_cast<std::int64_t>(static_cast<int>(seen - base));
  return std::clamp<std::int64_t>(now, 0, value);
}

/// What the semaphores say about the tiles of one producer.
class Evidence {
 public:
  Evidence(Plan const& plan, int producer, std::span<unsigned const> semaphores, std::int64_t epoch)
      : plan_(plan), producer_(producer), semaphores_(semaphores), epoch_(epoch) {}

  enum class Answer { missing, posted, unknown };
  Answer about(std::int64_t tile) const {
    auto const grid = stage_at(plan_, producer_).tile_grid();
    for (auto const& set : plan_.semaphores) {
      if (set.producer != producer_) continue;
      auto const semaphore = set.first + set.map.semaphore_of(grid, tile_of(grid, tile));
      if (static_cast<std::size_t>(semaphore) >= semaphores_.size()) continue;
      auto const value = posts_of(plan_, set, semaphore);
      auto const count = posted(semaphores_[static_cast<std::size_t>(semaphore)], value, epoch_);
      if (count == value) return Answer::posted;
      // One tile alone: it is not complete. Nothing at all: no tile is.
      if (count == 0 || set.map.tiles_of(grid, semaphore - set.first) == 1) return Answer::missing;
    }
    return Answer::unknown;
  }

 private:
  Plan const& plan_;
  int producer_;
  std::span<unsigned const> semaphores_;
  std::int64_t epoch_;
};

/// The dependence of the waiting tile that names the semaphore, or -1: a reuse edge.
int dependence_of(Plan const& plan, StallRecord const& record, std::vector<Awaited>& awaited) {
  for (std::size_t d = 0; d < plan.pipeline.dependences.size(); ++d) {
    if (plan.pipeline.dependences[d].consumer != record.stage) continue;
    awaited = awaited_by(plan, static_cast<int>(d), record.tile);
    for (auto const& one : awaited)
      if (one.semaphore == record.semaphore) return static_cast<int>(d);
  }
  awaited.clear();
  return -1;
}

std::string advice(Plan const& plan, int waiting_stage) {
  if (plan.launches[static_cast<std::size_t>(launch_of(plan, waiting_stage))].workers > 0)
    return "see that every tile calls post() once, that all workers are resident, and that nothing else runs "
           "on "
           "the GPU";
  return "see that every block of the producer calls start() and post() once, the last stage's too; if "
         "blocks "
         "are only slow, raise the deadline";
}

}  // namespace

std::string semaphore_name(Plan const& plan, SemaphoreSet const& set, std::int64_t index) {
  auto const& producer = stage_at(plan, set.producer);
  auto const grid = producer.tile_grid();
  if (set.map.is_table())
    return fmt::format("{} {} of {}", set.policy.empty() ? "semaphore" : set.policy, index, producer.name);
  std::string inside;
  bool row = producer.grid.size() == 2;
  int row_index = 0;
  for (std::size_t d = 0; d < producer.grid.size(); ++d) {
    auto const& map = set.map.dimension[d];
    int const extent = grid.extent[d];
    int const count = map.count(extent);
    auto const i = static_cast<int>(index % count);
    index /= count;
    if (d > 0) inside += ", ";
    if (map.members(extent, i) == 1 && map.grouping != Grouping::all) {
      int const at = map.grouping == Grouping::block ? i * map.width : i;
      inside += std::to_string(at);
      if (d == 0) row = false;
      if (d == 1) row_index = at;
      continue;
    }
    if (d == 1) row = false;
    switch (map.grouping) {
      case Grouping::block:
        inside += fmt::format("{}:{}", i * map.width, std::min(extent, (i + 1) * map.width));
        if (d == 0 && count > 1) row = false;
        break;
      case Grouping::stride:
        inside += fmt::format("{}::{}", i, map.width);
        if (d == 0 && count > 1) row = false;
        break;
      default: inside += "*"; break;
    }
  }
  if (row) return fmt::format("row {} of {}", row_index, producer.name);
  return fmt::format("{}({})", producer.name, inside);
}

Diagnostic stall_report(Plan const& plan, StallRecord const& record, std::span<unsigned const> semaphores) {
  auto const& consumer = stage_at(plan, record.stage);
  auto const seconds = static_cast<double>(record.waited_ns) * 1e-9;
  Diagnostic report{"E0520", Severity::error, consumer.where, {}, {}, advice(plan, record.stage)};
  if (record.semaphore == k_no_semaphore) {
    auto const& before = stage_at(plan, std::max(0, record.stage - 1));
    report.message = fmt::format(
        "the wait kernel before {} waits for the first block of {}: {} blocks started, in "
        "all launches, {} expected",
        consumer.name, before.name, record.seen, record.expected);
    report.notes = {fmt::format("after {:.3g} s", seconds)};
    return report;
  }
  auto const waiting = place_of(consumer, record.tile);
  if (record.semaphore <= k_data_token) {
    report.message = fmt::format("{} waits for data that a stage before it writes: token {}, expected {}",
                                 waiting, record.seen, record.expected);
    report.notes = {fmt::format("gave up after {:.3g} s", seconds)};
    report.suggestion =
        "see that every item of the buffer is written once in every launch, and that all blocks can run at "
        "once";
    return report;
  }
  auto const* const set = set_with(plan, record.semaphore);
  if (set == nullptr) {
    report.message =
        fmt::format("{} waits for semaphore {}, which no stage posts to", waiting, record.semaphore);
    return report;
  }
  auto const& producer = stage_at(plan, set->producer);
  auto const value = posts_of(plan, *set, record.semaphore);
  auto const epoch = static_cast<std::int64_t>(record.expected) / std::max<std::int64_t>(value, 1) - 1;

  std::vector<Awaited> awaited;
  int const dependence = dependence_of(plan, record, awaited);
  // A semaphore for each tile says little alone: count over all that the tile waits for.
  bool const several = awaited.size() > 1 && !semaphores.empty();
  std::int64_t have = posted(record.seen, value, epoch);
  std::int64_t need = value;
  std::string name = semaphore_name(plan, *set, record.semaphore - set->first);
  if (several) {
    have = need = 0;
    for (auto const& one : awaited) {
      need += one.value;
      have += posted(semaphores[static_cast<std::size_t>(one.semaphore)], one.value, epoch);
    }
    name = fmt::format("{} and {} more semaphores of {}", name, awaited.size() - 1, producer.name);
  }

  std::vector<std::string> missing;
  std::size_t missing_count = 0;
  std::int64_t unknown = 0;
  auto const grid = producer.tile_grid();
  Evidence const evidence(plan, set->producer, semaphores, epoch);
  for (std::int64_t tile = 0; tile < producer.tiles(); ++tile) {
    auto const semaphore = set->first + set->map.semaphore_of(grid, tile_of(grid, tile));
    bool const concerned = several ? std::any_of(awaited.begin(), awaited.end(),
                                                 [&](auto const& a) { return a.semaphore == semaphore; })
                                   : semaphore == record.semaphore;
    if (!concerned) continue;
    auto const answer = evidence.about(tile);
    if (answer == Evidence::Answer::unknown) ++unknown;
    if (answer == Evidence::Answer::missing && ++missing_count <= k_shown_tiles)
      missing.push_back(tile_name(producer, tile));
  }
  report.message = fmt::format("{} waits for {}: {} of {} posted", waiting, name, have, need);
  if (missing_count > 0)
    report.message += fmt::format(
        "; missing {}{}", fmt::join(missing, ", "),
        missing_count > missing.size() ? fmt::format(" and {} more", missing_count - missing.size()) : "");
  if (unknown > 0 && have < need)
    report.notes.push_back(fmt::format("{} counts {} tiles together: it does not say which are missing",
                                       set->policy, set->map.tiles_of(grid, record.semaphore - set->first)));
  if (have == need)
    report.notes.push_back("all posts came after the deadline: blocks are slow, or the deadline is short");
  report.notes.push_back(
      fmt::format("semaphore {}: seen {}, expected {}, in launch {}; gave up after {:.3g} s",
                  record.semaphore, record.seen, record.expected, epoch + 1, seconds));
  if (dependence < 0) report.notes.push_back("the wait is for readers of a buffer that the tile overwrites");
  return report;
}

}  // namespace tessera
