// SPDX-License-Identifier: Apache-2.0
#include "tessera/plan/launch_faults.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tessera {
namespace {

using About = LaunchFault::About;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

class Faults {
 public:
  explicit Faults(Plan const& plan) : plan_(plan) {}

  std::vector<LaunchFault> find() {
    coverage();
    if (!found_.empty()) return std::move(found_);
    for (int l = 0; l < static_cast<int>(plan_.launches.size()); ++l) {
      workers(l);
      tickets(l);
      wait_kernel(l);
    }
    for (auto const& group : groups_of(plan_)) beside(group);
    edges();
    return std::move(found_);
  }

 private:
  void add(About about, int index, std::string message, std::string way_out) {
    found_.push_back({about, index, std::move(message), std::move(way_out)});
  }
  std::string const& name(int stage) const { return plan_.pipeline.stages[at(stage)].name; }
  std::string names(Launch const& launch) const {
    std::string text;
    for (int s = launch.first; s < launch.end(); ++s) text += (text.empty() ? "" : " + ") + name(s);
    return text;
  }

  /// Why a launch does not go on where the one before it ended; nothing if it does.
  std::string misplaced(Launch const& launch, int next, int stages) const {
    if (launch.stages < 1) return fmt::format("holds {} stages", launch.stages);
    auto const stage = [&](int s) {
      return s >= 0 && s < stages ? name(s) : fmt::format("stage {} of {}", s, stages);
    };
    if (launch.first != next || next == stages)
      return fmt::format("begins with {}, where {}", stage(launch.first),
                         next < stages ? name(next) + " is next" : "all stages are launched");
    if (launch.stages <= stages - next) return "";
    return fmt::format("holds {} stages, where {} {} left from {} on", launch.stages, stages - next,
                       stages - next == 1 ? "is" : "are", name(next));
  }

  void coverage() {
    char const* const way_out = "name every stage in exactly one launch, in the pipeline's order";
    int next = 0;
    int const stages = static_cast<int>(plan_.pipeline.stages.size());
    for (int l = 0; l < static_cast<int>(plan_.launches.size()); ++l) {
      auto const& launch = plan_.launches[at(l)];
      auto const wrong = misplaced(launch, next, stages);
      if (!wrong.empty()) return add(About::launch, l, fmt::format("launch {} {}", l, wrong), way_out);
      next = launch.end();
    }
    if (next < stages)
      add(About::launch, std::max(0, static_cast<int>(plan_.launches.size()) - 1),
          fmt::format("no launch holds {}", name(next)), way_out);
  }

  void workers(int index) {
    auto const& launch = plan_.launches[at(index)];
    if (launch.workers < 0)
      add(About::launch, index, fmt::format("the launch of {} has {} workers", names(launch), launch.workers),
          "give 1 or more, or 0 for a stage's own kernel");
    if (launch.stages > 1 && launch.workers == 0)
      add(About::launch, index, fmt::format("{} are in one launch, which has no workers", names(launch)),
          "give it workers, or a launch to each stage");
  }

  void tickets(int index) {
    auto const& launch = plan_.launches[at(index)];
    if (launch.tickets.empty()) return;
    char const* const way_out = "leave the tickets out to go stage by stage, or name every block once";
    if (launch.workers == 0) {
      add(About::tickets, index, fmt::format("the launch of {} has tickets and no workers", names(launch)),
          "give it workers, or leave the tickets out");
      return;
    }
    std::vector<std::vector<bool>> seen;
    std::int64_t blocks = 0;
    for (int s = launch.first; s < launch.end(); ++s) blocks += plan_.pipeline.stages[at(s)].blocks();
    if (blocks != static_cast<std::int64_t>(launch.tickets.size())) {
      add(About::tickets, index,
          fmt::format("there are {} tickets for {} blocks", launch.tickets.size(), blocks), way_out);
      return;
    }
    for (int s = launch.first; s < launch.end(); ++s)
      seen.emplace_back(static_cast<std::size_t>(plan_.pipeline.stages[at(s)].blocks()));
    for (auto const& ticket : launch.tickets) {
      if (!launch.holds(ticket.stage)) {
        add(About::tickets, index,
            fmt::format("a ticket names stage {}, which is not in the launch of {}", ticket.stage,
                        names(launch)),
            way_out);
        return;
      }
      auto& blocks_seen = seen[at(ticket.stage - launch.first)];
      auto const position = static_cast<std::size_t>(ticket.position);
      bool const exists = ticket.position >= 0 && position < blocks_seen.size();
      if (exists && !blocks_seen[position]) {
        blocks_seen[position] = true;
        continue;
      }
      add(About::tickets, index,
          fmt::format("position {} of {} {}", ticket.position, name(ticket.stage),
                      exists ? "has two tickets" : "is not one of its blocks"),
          way_out);
      return;
    }
  }

  void wait_kernel(int index) {
    auto const& launch = plan_.launches[at(index)];
    if (launch.wait_kernel && launch.start != LaunchStart::beside)
      add(About::launch, index,
          fmt::format("the launch of {} has a wait kernel, but does not start beside another", names(launch)),
          "a wait kernel holds back what would start before its producer: start the launch beside, or leave "
          "the wait kernel out");
  }

  void beside(LaunchGroup const& group) {
    auto const first = plan_.launches.begin() + group.first;
    auto const end = plan_.launches.begin() + group.end;
    auto const is_beside = [](Launch const& launch) { return launch.start == LaunchStart::beside; };
    auto const one = std::find_if(first, end, is_beside);
    if (one == end) return;
    auto const index = static_cast<int>(one - plan_.launches.begin());
    char const* const way_out = "start it in order or early";
    if (one == first) {
      add(About::launch, index,
          fmt::format("the launch of {} starts beside, and none comes before it", names(*one)),
          "the first launch starts in order");
      return;
    }
    auto const other = std::find_if(first, end, [](Launch const& launch) {
      return launch.workers > 0 || launch.start == LaunchStart::early;
    });
    if (other == end) return;
    add(About::launch, index,
        fmt::format("the launch of {} starts beside others, of which that of {} {}", names(*one),
                    names(*other), other->workers > 0 ? "has workers" : "starts early"),
        way_out);
  }

  void edges() {
    auto const check = [&](About about, int index, int consumer, int producer, int set,
                           std::string const& does) {
      if (kept_by(plan_, consumer, producer, set) != KeptBy::nothing) return;
      bool const together = launch_of(plan_, consumer) == launch_of(plan_, producer);
      add(about, index,
          fmt::format("{} {}, and nothing makes it wait: {}", name(consumer), does,
                      together ? "both are in one launch"
                               : fmt::format("its launch starts beside that of {}", name(producer))),
          together ? "give it a semaphore set, or a launch to each of the two"
                   : "give it a semaphore set, or start the launch in order");
    };
    for (std::size_t d = 0; d < plan_.dependences.size(); ++d) {
      auto const& dependence = plan_.pipeline.dependences[at(plan_.dependences[d].dependence)];
      check(About::dependence, plan_.dependences[d].dependence, dependence.consumer, dependence.producer,
            plan_.dependences[d].semaphore_set, "reads what " + name(dependence.producer) + " writes");
      if (dependence.on_complete != OnComplete::release_waiters)
        add(About::dependence, plan_.dependences[d].dependence,
            fmt::format("tiles of {} go to a peer GPU when they are complete, and a plan is for one GPU",
                        name(dependence.producer)),
            "let the dependence release waiters; transfers to peers are simulated by tessera simulate "
            "--study t3");
    }
    for (std::size_t e = 0; e < plan_.reuse_edges.size(); ++e) {
      auto const& edge = plan_.reuse_edges[e];
      check(About::reuse_edge, static_cast<int>(e), edge.writer, edge.reader, edge.semaphore_set,
            fmt::format("overwrites \"{}\", which {} may still use", edge.buffer, name(edge.reader)));
    }
  }

  Plan const& plan_;
  std::vector<LaunchFault> found_;
};

}  // namespace

std::vector<LaunchFault> launch_faults(Plan const& plan) { return Faults(plan).find(); }

}  // namespace tessera
