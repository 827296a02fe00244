// SPDX-License-Identifier: Apache-2.0
#include "described_order.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tessera/describe/tile_relation.hpp>

#include "waves.hpp"

namespace tessera::gemm_collectives {
namespace {

struct Tile {
  int stage = 0;
  std::int64_t number = 0;
  int launch = 0;
};

class Kept {
 public:
  Kept(Loop const& loop, Problem const& problem, Events const& events)
      : loop_(loop), problem_(problem), events_(events) {
    for (auto const& one : loop.body.dependences)
      relations_.push_back({one, 0, TileRelation(loop.body, one)});
    for (auto const& one : loop.carried)
      relations_.push_back({one.dependence, one.distance, TileRelation(loop.body, one.dependence)});
  }

  KeptDependences all() {
    for (int stage = 0; stage < static_cast<int>(loop_.body.stages.size()); ++stage)
      for (int launch = 0; launch < events_.launches() && !is_word(stage); ++launch)
        for (std::int64_t number = 0; number < stage_of(stage).tiles() && kept_.broken.empty(); ++number) {
          Tile const consumer{stage, number, launch};
          if (is_missing(consumer)) kept_.broken = "no step does " + name_of(consumer);
          read_by(consumer, consumer);
        }
    return kept_;
  }

 private:
  struct Relation {
    Dependence dependence;
    int distance;
    TileRelation relation;
  };

  Stage const& stage_of(int stage) const { return loop_.body.stages[static_cast<std::size_t>(stage)]; }
  bool is_word(int stage) const {
    auto const& name = stage_of(stage).name;
    return name == "ended" || name == "done" || name == "shared" || name == "begun" || name == "whole";
  }
  std::string name_of(Tile const& tile) const {
    return tile_name(stage_of(tile.stage), tile.number) + " of launch " + std::to_string(tile.launch);
  }

  /// What `reader` reads has to be behind what `consumer` does; through words, what they say.
  void read_by(Tile const& reader, Tile const& consumer) {
    for (auto const& [dependence, distance, relation] : relations_) {
      if (dependence.consumer != reader.stage || reader.launch < distance) continue;
      std::vector<std::int64_t> producers;
      relation.producers_of(reader.number, producers);
      for (auto const number : producers) {
        Tile const producer{dependence.producer, number, reader.launch - distance};
        if (is_word(producer.stage))
          read_by(producer, consumer);
        else
          check(producer, consumer);
        if (!kept_.broken.empty()) return;
      }
    }
  }

  void check(Tile const& producer, Tile const& consumer) {
    for (auto const& first : performed(producer))
      for (auto const& second : performed(consumer)) {
        ++kept_.pairs;
        // One step does both.
        if (first.begin == second.begin && first.end == second.end) continue;
        if (events_.before(first.end, second.begin)) continue;
        kept_.broken = fmt::format("{} needs {}, and nothing keeps \"{}\" behind \"{}\"", name_of(consumer),
                                   name_of(producer), events_.name(second.begin), events_.name(first.end));
        return;
      }
  }

  /// What a tile is about. `row`: its first row of the whole product; -1: all.
  struct About {
    int rank = 0, other = -1, row = -1;
    bool none = false;  ///< there are no such rows
  };
  bool whole() const { return stage_of(find_stage(loop_.body, "send")).grid.back().name == "peer"; }
  About about(Tile const& tile) const {
    About result;
    auto rest = tile.number;
    int row = -1;
    for (auto const& dimension : stage_of(tile.stage).grid) {
      int const at = static_cast<int>(rest % dimension.extent);
      rest /= dimension.extent;
      if (dimension.name == "rank") result.rank = at;
      if (dimension.name == "owner" || dimension.name == "peer" || dimension.name == "source")
        result.other = at;
      if (dimension.name == "row") row = at;
    }
    auto const rows =
        whole() ? RowRange{0, problem_.rows}
                : shard_of(problem_.rows, problem_.ranks, result.other < 0 ? result.rank : result.other);
    if (row >= 0) result.row = rows.begin + row * k_tile_rows;
    result.none = rows.rows() == 0 || result.row >= rows.end;
    return result;
  }

  /// Nothing stays where it is by a step of its own.
  bool is_missing(Tile const& tile) const {
    auto const one = about(tile);
    auto const& name = stage_of(tile.stage).name;
    bool const stays = (name == "send" || name == "share") && one.rank == one.other;
    return !one.none && !stays && performed(tile).empty();
  }
  /// The steps that compute or send a tile.
  std::vector<Events::Done> performed(Tile const& tile) const {
    auto const [rank, other, row, none] = about(tile);
    if (none) return {};
    auto const& name = stage_of(tile.stage).name;
    if (name == "product")
      return of(tile.launch, rank, {Act::multiply, Act::add, Act::fuse}, other, row, false);
    if (name == "sum")
      return of(tile.launch, other < 0 ? rank : other,
                {Act::sum_shard, Act::add, Act::exchange_words, Act::fuse}, -1, row, true);
    if (name == "send") return sent(tile.launch, rank, other, row);
    return shared(tile.launch, rank, other, row);
  }

  /// Steps of a rank that do one of these things to a row. `behind`: what a sum does behind its wait.
  std::vector<Events::Done> of(int launch, int rank, std::vector<Act> const& acts, int peer, int row,
                               bool behind) const {
    std::vector<Events::Done> found;
    auto const& steps = events_.steps(rank);
    for (int n = 0; n < static_cast<int>(steps.size()); ++n) {
      auto const& step = steps[static_cast<std::size_t>(n)];
      if (std::find(acts.begin(), acts.end(), step.act) == acts.end()) continue;
      bool const rows = step.rows.rows() == 0 || row < 0 || (step.rows.begin <= row && row < step.rows.end);
      // Whose rows they are; what adds is of the own ones.
      bool const theirs =
          peer < 0 || step.act == Act::fuse || step.peer == peer || (step.act == Act::add && peer == rank);
      if (rows && theirs && !(step.act == Act::add && peer >= 0 && peer != rank))
        found.push_back(step.act == Act::fuse && !behind ? events_.sent(launch, rank, n)
                                                         : events_.done(launch, rank, n));
    }
    return found;
  }

  /// What a rank sends to another: of an all-gather `other` sends, and `rank` gets it.
  std::vector<Events::Done> sent(int launch, int rank, int other, int row) const {
    bool const gathers = problem_.collective == Collective::all_gather;
    int const from = gathers ? other : rank, to = gathers ? rank : other;
    if (whole()) {
      auto const& steps = events_.steps(rank);
      for (int n = 0; n < static_cast<int>(steps.size()); ++n)
        if (auto const act = steps[static_cast<std::size_t>(n)].act;
            act == Act::exchange_words || act == Act::fuse)
          return {events_.sent(launch, rank, n)};
      return {};
    }
    std::vector<Events::Done> found;
    auto const& steps = events_.steps(from);
    for (int n = 0; n < static_cast<int>(steps.size()); ++n) {
      auto const& step = steps[static_cast<std::size_t>(n)];
      bool const rows = row < 0 || (step.rows.begin <= row && row < step.rows.end);
      bool const copies = step.act == Act::copy && step.to == Place::slot;
      bool const stores = step.act == Act::multiply && step.to == Place::slot;
      if ((copies || stores) && step.peer == to && rows) found.push_back(events_.done(launch, from, n));
    }
    return found;
  }

  /// An owner's sums to a rank.
  std::vector<Events::Done> shared(int launch, int rank, int owner, int row) const {
    std::vector<Events::Done> found;
    auto const& steps = events_.steps(owner);
    for (int n = 0; n < static_cast<int>(steps.size()); ++n) {
      auto const& step = steps[static_cast<std::size_t>(n)];
      bool const copies = step.act == Act::copy && step.from == Place::result && step.peer == rank &&
                          step.rows.begin <= row && row < step.rows.end;
      if (step.act == Act::sum_shard || copies) found.push_back(events_.done(launch, owner, n));
    }
    return found;
  }

  Loop const& loop_;
  Problem const& problem_;
  Events const& events_;
  std::vector<Relation> relations_;
  KeptDependences kept_;
};

}  // namespace

KeptDependences dependences_kept(Loop const& loop, Problem const& problem, Events const& events) {
  return Kept(loop, problem, events).all();
}

}  // namespace tessera::gemm_collectives
