// SPDX-License-Identifier: Apache-2.0
#include "json/plan_validate.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/plan/orders.hpp"

namespace tessera::json {
namespace {

constexpr char const* k_pipeline = "E0256";
constexpr char const* k_order = "E0257";
constexpr char const* k_semaphores = "E0258";
constexpr char const* k_dependence = "E0259";
constexpr char const* k_reuse = "E0260";
constexpr char const* k_stage = "E0261";
constexpr char const* k_tickets = "E0262";

class Validation {
 public:
  Validation(Document& document, Plan const& plan, std::vector<BufferReuse> const& reuses)
      : document_(document), plan_(plan), reuses_(reuses) {}

  void run() {
    if (!counts_agree()) return;
    stages();
    semaphores();
    if (document_.failed()) return;
    dependences();
    reuse_edges();
    uncovered_reuses();
    workers_and_tickets();
  }

 private:
  /// The node of entry `i` of a member that is an array, for its line.
  Node const& entry(char const* member, std::size_t i) const {
    return document_.root().find(member)->items()[i];
  }
  Node const& member(char const* name) const {
    auto const* node = document_.root().find(name);
    return node != nullptr ? *node : document_.root();
  }
  Stage const& stage(std::size_t s) const { return plan_.pipeline.stages[s]; }
  bool tiles() const { return uses_semaphores(plan_.mechanism); }

  bool counts_agree() {
    auto const same = [&](char const* name, std::size_t have, std::size_t want, char const* code) {
      if (have != want)
        document_.report(member(name), code,
                         fmt::format("\"{}\" lists {}, and the pipeline has {}", name, have, want));
    };
    same("stages", plan_.stages.size(), plan_.pipeline.stages.size(), k_stage);
    same("dependences", plan_.dependences.size(), plan_.pipeline.dependences.size(), k_dependence);
    return !document_.failed();
  }

  void stages() {
    for (std::size_t s = 0; s < plan_.stages.size(); ++s) {
      auto const& planned = plan_.stages[s];
      auto const& node = entry("stages", s);
      if (!is_permutation_of(planned.order, stage(s).tiles()))
        document_.report(
            node, k_order,
            fmt::format("the order of {} is no permutation of its {} tiles", stage(s).name, stage(s).tiles()),
            {fmt::format("the table has {} entries", planned.order.table.size())},
            "list every tile from 0 on exactly once, or leave the table out for row major");
      if (!planned.custom_order && !planned.order.table.empty())
        document_.report(
            node, k_stage,
            fmt::format("{} has a table of its order, but \"custom_order\" is false", stage(s).name), {},
            "a block that draws no ticket takes the tile of its own index");
      if (planned.wait_kernel && (plan_.mechanism != Mechanism::wait_kernel || s == 0))
        document_.report(
            node, k_stage,
            fmt::format("{} has a wait kernel, {}", stage(s).name,
                        s == 0 ? "but no stage comes before it"
                               : "but the mechanism is " + std::string(to_text(plan_.mechanism))));
      if (!planned.custom_order && plan_.mechanism == Mechanism::fused)
        document_.report(node, k_stage,
                         fmt::format("{} draws no tickets, but a fused launch needs them", stage(s).name));
    }
  }

  void semaphores() {
    if (!tiles() && !plan_.semaphores.empty())
      document_.report(member("semaphores"), k_semaphores,
                       fmt::format("{} uses no semaphores, but the plan has {} sets",
                                   to_text(plan_.mechanism), plan_.semaphores.size()));
    std::int64_t next = 0;
    for (std::size_t i = 0; i < plan_.semaphores.size(); ++i) {
      auto const& set = plan_.semaphores[i];
      auto const& node = entry("semaphores", i);
      if (set.producer < 0) {
        document_.report(node, k_semaphores, fmt::format("the producer of semaphore set {} is no stage", i));
        return;
      }
      auto const grid = stage(static_cast<std::size_t>(set.producer)).tile_grid();
      for (int d = 0; d < k_max_rank; ++d)
        if (set.map.dimension[d].width > grid.extent[d]) {
          document_.report(node, k_semaphores,
                           fmt::format("a group of semaphore set {} is {} wide, in a dimension of {} tiles",
                                       i, set.map.dimension[d].width, grid.extent[d]));
          return;
        }
      auto const count = set.map.count(grid);
      if (set.count != count)
        document_.report(
            node, k_semaphores,
            fmt::format("semaphore set {} says {} semaphores, and its map makes {}", i, set.count, count));
      if (set.first != next)
        document_.report(node, k_semaphores,
                         fmt::format("semaphore set {} begins at {}, not at {} where the one before ends", i,
                                     set.first, next));
      next += count;
    }
  }

  void dependences() {
    for (std::size_t d = 0; d < plan_.dependences.size(); ++d) {
      auto const set = plan_.dependences[d].semaphore_set;
      auto const& dependence = plan_.pipeline.dependences[d];
      auto const& consumer = stage(static_cast<std::size_t>(dependence.consumer)).name;
      auto const& producer = stage(static_cast<std::size_t>(dependence.producer)).name;
      auto const& node = entry("dependences", d);
      if (set < 0 && tiles())
        document_.report(node, k_dependence,
                         fmt::format("{} waits for {} without semaphores, which {} does not order", consumer,
                                     producer, to_text(plan_.mechanism)));
      if (set >= 0 && plan_.semaphores[static_cast<std::size_t>(set)].producer != dependence.producer)
        document_.report(
            node, k_dependence,
            fmt::format(
                "{} waits for {}, but semaphore set {} is posted by {}", consumer, producer, set,
                stage(static_cast<std::size_t>(plan_.semaphores[static_cast<std::size_t>(set)].producer))
                    .name));
    }
  }

  void reuse_edges() {
    for (std::size_t i = 0; i < plan_.reuse_edges.size(); ++i) {
      auto const& edge = plan_.reuse_edges[i];
      auto const& node = entry("reuse_edges", i);
      if (edge.reader < 0 || edge.writer <= edge.reader) {
        document_.report(node, k_reuse, "the writer of a reuse edge must be a later stage than its reader");
        continue;
      }
      if (edge.semaphore_set < 0) {
        if (tiles())
          document_.report(node, k_reuse,
                           fmt::format("a reuse edge without semaphores, which {} does not order",
                                       to_text(plan_.mechanism)));
        continue;
      }
      auto const& set = plan_.semaphores[static_cast<std::size_t>(edge.semaphore_set)];
      if (set.producer != edge.reader || set.count != 1)
        document_.report(
            node, k_reuse,
            fmt::format("a reuse edge needs one semaphore for all tiles of {}, which set {} is not",
                        stage(static_cast<std::size_t>(edge.reader)).name, edge.semaphore_set));
    }
  }

  /// What check() found must be ordered: an early start may not overwrite what is still read.
  void uncovered_reuses() {
    if (!tiles()) return;
    for (auto const& reuse : reuses_) {
      if (reuse.covered ||
          std::any_of(plan_.reuse_edges.begin(), plan_.reuse_edges.end(), [&](ReuseEdge const& edge) {
            return edge.writer == reuse.writer && edge.reader == reuse.reader && edge.buffer == reuse.buffer;
          }))
        continue;
      document_.report(
          member("reuse_edges"), k_reuse,
          fmt::format("{} overwrites \"{}\", which {} may still use, and no reuse edge orders them",
                      stage(static_cast<std::size_t>(reuse.writer)).name, reuse.buffer,
                      stage(static_cast<std::size_t>(reuse.reader)).name));
    }
  }

  void workers_and_tickets() {
    bool const fused = plan_.mechanism == Mechanism::fused;
    if (fused != (plan_.workers > 0))
      document_.report(
          member("workers"), k_tickets,
          fused ? "a fused launch needs at least one worker"
                : fmt::format("only a fused launch has workers, and this is {}", to_text(plan_.mechanism)));
    if (plan_.tickets.empty()) return;
    auto const& node = member("tickets");
    if (!fused) {
      document_.report(
          node, k_tickets,
          fmt::format("only a fused launch has tickets, and this is {}", to_text(plan_.mechanism)));
      return;
    }
    std::vector<std::vector<bool>> seen;
    std::int64_t blocks = 0;
    for (auto const& s : plan_.pipeline.stages) {
      blocks += s.blocks();
      seen.emplace_back();
    }
    if (blocks != static_cast<std::int64_t>(plan_.tickets.size())) {
      document_.report(node, k_tickets,
                       fmt::format("there are {} tickets for {} blocks", plan_.tickets.size(), blocks));
      return;
    }
    for (std::size_t s = 0; s < seen.size(); ++s) seen[s].resize(static_cast<std::size_t>(stage(s).blocks()));
    for (auto const& ticket : plan_.tickets) {
      auto& blocks_seen = seen[static_cast<std::size_t>(ticket.stage)];
      auto const position = static_cast<std::size_t>(ticket.position);
      if (position < blocks_seen.size() && !blocks_seen[position]) {
        blocks_seen[position] = true;
        continue;
      }
      document_.report(
          node, k_tickets,
          fmt::format("position {} of {} {}", ticket.position,
                      stage(static_cast<std::size_t>(ticket.stage)).name,
                      position < blocks_seen.size() ? "has two tickets" : "is not one of its blocks"));
      return;
    }
  }

  Document& document_;
  Plan const& plan_;
  std::vector<BufferReuse> const& reuses_;
};

}  // namespace

Expected<CheckedPipeline> check_pipeline(Document const& document, Node const& node,
                                         Pipeline const& pipeline) {
  auto checked = check(pipeline);
  if (checked) return checked;
  Diagnostics problems{{k_pipeline,
                        Severity::error,
                        document.at(node),
                        "the pipeline of this plan does not pass the check",
                        {},
                        ""}};
  problems.insert(problems.end(), checked.error().begin(), checked.error().end());
  return tl::make_unexpected(std::move(problems));
}

void validate(Document& document, Plan const& plan, CheckedPipeline const& checked) {
  Validation(document, plan, checked.reuses()).run();
}

}  // namespace tessera::json
