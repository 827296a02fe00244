// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tessera/describe/tile_relation.hpp"
#include "tessera/plan/orders.hpp"

namespace tessera {
namespace {

/// One stage while its tickets are handed out.
struct Progress {
  std::vector<std::int64_t> handed_out;  ///< per tile: ticket number of its last split, or -1
  std::int64_t next = 0;                 ///< position in the stage's order
  std::int64_t last_ticket = -1;         ///< of the whole stage

  // The next tile's needs, as (stage, tile), checked up to `checked`.
  std::vector<std::pair<int, std::int64_t>> needs;
  std::size_t checked = 0;
  std::int64_t latest_need = -1;
  bool needs_known = false;
};

class Merge {
 public:
  Merge(Pipeline const& pipeline, std::vector<TileOrder> const& orders, std::vector<ReuseEdge> const& edges,
        std::int64_t lag)
      : pipeline_(pipeline), orders_(orders), edges_(edges), lag_(lag), stages_(pipeline.stages.size()) {
    for (auto const& dependence : pipeline.dependences) relations_.emplace_back(pipeline, dependence);
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      stages_[s].handed_out.assign(static_cast<std::size_t>(pipeline.stages[s].tiles()), -1);
      blocks_ += pipeline.stages[s].blocks();
    }
  }

  std::vector<Launch::Ticket> run() {
    tickets_.reserve(static_cast<std::size_t>(blocks_));
    while (static_cast<std::int64_t>(tickets_.size()) < blocks_) hand_out(choose_stage());
    return std::move(tickets_);
  }

 private:
  bool finished(std::size_t s) const {
    return stages_[s].next == static_cast<std::int64_t>(stages_[s].handed_out.size());
  }

  /// The latest stage whose next tile is due; else the earliest unfinished one, which needs nothing that
  /// has no ticket yet.
  std::size_t choose_stage() {
    auto const now = static_cast<std::int64_t>(tickets_.size());
    std::size_t first = 0;
    while (finished(first)) ++first;
    for (std::size_t s = stages_.size(); s-- > first + 1;)
      if (!finished(s) && needs_handed_out(s) && stages_[s].latest_need + lag_ < now) return s;
    return first;
  }

  bool needs_handed_out(std::size_t s) {
    auto& stage = stages_[s];
    if (!stage.needs_known) list_needs(s);
    for (; stage.checked < stage.needs.size(); ++stage.checked) {
      auto const [producer, tile] = stage.needs[stage.checked];
      auto const& other = stages_[static_cast<std::size_t>(producer)];
      auto const ticket = other.handed_out[static_cast<std::size_t>(tile)];
      if (ticket < 0) return false;
      stage.latest_need = std::max(stage.latest_need, ticket);
    }
    for (auto const& edge : edges_) {
      if (edge.writer != static_cast<int>(s)) continue;
      if (!finished(static_cast<std::size_t>(edge.reader))) return false;
      stage.latest_need =
          std::max(stage.latest_need, stages_[static_cast<std::size_t>(edge.reader)].last_ticket);
    }
    return true;
  }

  void list_needs(std::size_t s) {
    auto& stage = stages_[s];
    stage.needs.clear();
    stage.checked = 0;
    stage.latest_need = -1;
    stage.needs_known = true;
    auto const tile = orders_[s].tile_at(stage.next);
    std::vector<std::int64_t> tiles;
    for (std::size_t d = 0; d < relations_.size(); ++d) {
      if (pipeline_.dependences[d].consumer != static_cast<int>(s)) continue;
      relations_[d].producers_of(tile, tiles);
      for (auto const need : tiles) stage.needs.emplace_back(pipeline_.dependences[d].producer, need);
    }
  }

  void hand_out(std::size_t s) {
    auto& stage = stages_[s];
    int const splits = pipeline_.stages[s].splits;
    for (int split = 0; split < splits; ++split)
      tickets_.push_back(
          {static_cast<std::int32_t>(s), static_cast<std::int32_t>(stage.next * splits + split)});
    stage.last_ticket = static_cast<std::int64_t>(tickets_.size()) - 1;
    stage.handed_out[static_cast<std::size_t>(orders_[s].tile_at(stage.next))] = stage.last_ticket;
    ++stage.next;
    stage.needs_known = false;
  }

  Pipeline const& pipeline_;
  std::vector<TileOrder> const& orders_;
  std::vector<ReuseEdge> const& edges_;
  std::int64_t lag_;
  std::vector<Progress> stages_;
  std::vector<TileRelation> relations_;
  std::vector<Launch::Ticket> tickets_;
  std::int64_t blocks_ = 0;
};

}  // namespace

std::vector<Launch::Ticket> merged_tickets(Pipeline const& pipeline, std::vector<TileOrder> const& orders,
                                           std::vector<ReuseEdge> const& reuse_edges, std::int64_t lag) {
  auto tickets = Merge(pipeline, orders, reuse_edges, lag).run();
  bool const by_stage = std::is_sorted(tickets.begin(), tickets.end(),
                                       [](auto const& a, auto const& b) { return a.stage < b.stage; });
  if (by_stage) tickets.clear();
  return tickets;
}

}  // namespace tessera
