// SPDX-License-Identifier: Apache-2.0
#include "json/plan_validate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <tuple>

#include "plan/assemble.hpp"
#include "tessera/plan/launch_faults.hpp"
#include "tessera/plan/orders.hpp"
#include "tessera/plan/policies.hpp"

namespace tessera::json {
namespace {

constexpr char const* k_pipeline = "E0256";
constexpr char const* k_order = "E0257";
constexpr char const* k_semaphores = "E0258";
constexpr char const* k_dependence = "E0259";
constexpr char const* k_reuse = "E0260";
constexpr char const* k_stage = "E0261";
constexpr char const* k_tickets = "E0262";
constexpr char const* k_launches = "E0263";

class Validation {
 public:
  Validation(Document& document, Node const& root, Plan const& plan, std::vector<BufferReuse> const& reuses)
      : document_(document), root_(root), plan_(plan), reuses_(reuses) {}

  void run() {
    if (!counts_agree()) return;
    semaphores();
    if (document_.failed()) return;
    dependences();
    reuse_edges();
    if (document_.failed()) return;
    launches();
    if (document_.failed()) return;
    stages();
    unawaited_sets();
    uncovered_reuses();
  }

 private:
  /// The node of entry `i` of a member that is an array, for its line. What a file of version 1 does not say
  /// has the line of the whole.
  Node const& entry(char const* name, std::size_t i) const {
    auto const* node = root_.find(name);
    return node != nullptr && i < node->items().size() ? node->items()[i] : member(name);
  }
  Node const& member(char const* name) const {
    auto const* node = root_.find(name);
    return node != nullptr ? *node : root_;
  }
  Stage const& stage(std::size_t s) const { return plan_.pipeline.stages[s]; }

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
      if (planned.order.table.empty() && !planned.order.bands && planned.order.name != TileOrder{}.name)
        document_.report(node, k_order,
                         fmt::format("the order of {} is called \"{}\", and without a table it is row major",
                                     stage(s).name, planned.order.name.substr(0, 60)),
                         {}, "give its table or its bands, or call it row major");
      if (planned.persistent_blocks > stage(s).blocks())
        document_.report(node, k_stage,
                         fmt::format("{} has a persistent grid of {} blocks, and {} of work", stage(s).name,
                                     planned.persistent_blocks, stage(s).blocks()),
                         {}, "give it fewer blocks, or 0: a grid of as many as there are tiles");
      auto const posts = [&](SemaphoreSet const& set) { return set.producer == static_cast<int>(s); };
      if (planned.plain_store && std::any_of(plan_.semaphores.begin(), plan_.semaphores.end(), posts) &&
          !has_single_posts(plan_, static_cast<int>(s)))
        document_.report(node, k_stage,
                         fmt::format("{} posts by a plain store, and no value of its semaphores is one post",
                                     stage(s).name),
                         {}, "\"plain_store\" is false where several tiles post to one semaphore");
      if (!planned.custom_order && !planned.order.table.empty())
        document_.report(
            node, k_stage,
            fmt::format("{} has a table of its order, but \"custom_order\" is false", stage(s).name), {},
            "a block that draws no ticket takes the tile of its own index");
      if (plan_.launches[static_cast<std::size_t>(launch_of(plan_, static_cast<int>(s)))].workers == 0)
        continue;
      if (!planned.custom_order)
        document_.report(
            node, k_stage,
            fmt::format("{} draws no tickets, but a persistent launch needs them", stage(s).name));
      if (planned.persistent_blocks > 0)
        document_.report(
            node, k_stage,
            fmt::format("{} has a persistent grid of its own, and is in a launch of workers", stage(s).name));
    }
  }

  void semaphores() {
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
      if (auto const problem = problem_of(set.map, grid); !problem.empty()) {
        document_.report(node, k_semaphores,
                         fmt::format("semaphore set {} has a map that cannot be used: {}", i, problem));
        return;
      }
      auto const count = set.map.count(grid);
      if (set.count != count)
        document_.report(
            node, k_semaphores,
            fmt::format("semaphore set {} says {} semaphores, and its map makes {}", i, set.count, count));
      if (!is_named_so(set, grid))
        document_.report(node, k_semaphores,
                         fmt::format("semaphore set {} is called {}, and its map is {}", i,
                                     set.policy.substr(0, 60), policy_name(set.map, grid, false)));
      if (set.first != next)
        document_.report(node, k_semaphores,
                         fmt::format("semaphore set {} begins at {}, not at {} where the one before ends", i,
                                     set.first, next));
      next += count;
    }
  }

  /// By its map, or by the name that a dependence gives this map.
  bool is_named_so(SemaphoreSet const& set, TileGrid const& grid) const {
    return is_called(set.map, grid, set.policy) ||
           std::any_of(plan_.pipeline.dependences.begin(), plan_.pipeline.dependences.end(),
                       [&](auto const& d) {
                         return d.producer == set.producer && d.policy && d.policy->name == set.policy &&
                                same_map(normalized(d.policy->map, grid), normalized(set.map, grid));
                       });
  }

  void unawaited_sets() {
    for (std::size_t i = 0; i < plan_.semaphores.size(); ++i)
      if (!is_awaited(static_cast<int>(i)))
        document_.report(entry("semaphores", i), k_semaphores,
                         fmt::format("nothing waits for semaphore set {} of {}", i,
                                     stage(static_cast<std::size_t>(plan_.semaphores[i].producer)).name));
  }

  bool is_awaited(int set) const {
    auto const names = [&](auto const& edge) { return edge.semaphore_set == set; };
    return std::any_of(plan_.dependences.begin(), plan_.dependences.end(), names) ||
           std::any_of(plan_.reuse_edges.begin(), plan_.reuse_edges.end(), names);
  }

  void dependences() {
    for (std::size_t d = 0; d < plan_.dependences.size(); ++d) {
      auto const set = plan_.dependences[d].semaphore_set;
      auto const& dependence = plan_.pipeline.dependences[d];
      auto const& consumer = stage(static_cast<std::size_t>(dependence.consumer)).name;
      auto const& producer = stage(static_cast<std::size_t>(dependence.producer)).name;
      auto const& node = entry("dependences", d);
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
    std::set<std::tuple<int, int, std::string, int>> seen;
    for (std::size_t i = 0; i < plan_.reuse_edges.size(); ++i) {
      auto const& edge = plan_.reuse_edges[i];
      auto const& node = entry("reuse_edges", i);
      if (edge.reader < 0 || edge.writer <= edge.reader) {
        document_.report(node, k_reuse, "the writer of a reuse edge must be a later stage than its reader");
        continue;
      }
      if (!seen.emplace(edge.writer, edge.reader, edge.buffer, edge.semaphore_set).second)
        document_.report(node, k_reuse, "this reuse edge is given twice", {}, "remove one of them");
      if (edge.semaphore_set < 0) continue;
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
    for (auto const& reuse : reuses_) {
      if (reuse.covered || kept_by(plan_, reuse.writer, reuse.reader, -1) == KeptBy::completion ||
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

  void launches() {
    for (auto const& fault : launch_faults(plan_)) {
      using About = LaunchFault::About;
      auto const index = static_cast<std::size_t>(fault.index);
      // A file of version 1 has one mechanism instead, and one list of tickets.
      bool const written = root_.find("launches") != nullptr;
      auto const& launch = written                         ? entry("launches", index)
                           : fault.about == About::tickets ? member("tickets")
                                                           : member("mechanism");
      switch (fault.about) {
        case About::launch: document_.report(launch, k_launches, fault.message, {}, fault.way_out); break;
        case About::tickets: document_.report(launch, k_tickets, fault.message, {}, fault.way_out); break;
        case About::dependence:
          document_.report(entry("dependences", index), k_dependence, fault.message, {}, fault.way_out);
          break;
        case About::reuse_edge:
          document_.report(entry("reuse_edges", index), k_reuse, fault.message, {}, fault.way_out);
          break;
      }
    }
  }

  Document& document_;
  Node const& root_;
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

void validate(Document& document, Node const& root, Plan const& plan, CheckedPipeline const& checked) {
  Validation(document, root, plan, checked.reuses()).run();
}

}  // namespace tessera::json
