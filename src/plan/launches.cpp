// SPDX-License-Identifier: Apache-2.0
// What follows from a plan's launches and edges: who may run at the same time, who waits how, and names.
#include <fmt/format.h>

#include <algorithm>

#include "tessera/plan/plan.hpp"

namespace tessera {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

bool waits_for_semaphores(Plan const& plan, LaunchGroup const& launches) {
  auto const inside = [&](int stage) {
    auto const launch = launch_of(plan, stage);
    return launches.first <= launch && launch < launches.end;
  };
  auto const& dependences = plan.pipeline.dependences;
  return std::any_of(plan.dependences.begin(), plan.dependences.end(),
                     [&](PlannedDependence const& planned) {
                       return planned.semaphore_set >= 0 &&
                              inside(dependences[at(planned.dependence)].consumer);
                     }) ||
         std::any_of(plan.reuse_edges.begin(), plan.reuse_edges.end(),
                     [&](ReuseEdge const& edge) { return edge.semaphore_set >= 0 && inside(edge.writer); });
}

bool posts(Plan const& plan, int stage) {
  return std::any_of(plan.semaphores.begin(), plan.semaphores.end(),
                     [&](SemaphoreSet const& set) { return set.producer == stage; });
}

}  // namespace

char const* to_text(Mechanism mechanism) {
  switch (mechanism) {
    case Mechanism::stream_order: return "stream order";
    case Mechanism::pdl: return "PDL";
    case Mechanism::wait_kernel: return "wait kernel";
    case Mechanism::pdl_tiles: return "PDL + tiles";
    case Mechanism::fused: return "fused";
  }
  return "";
}

bool uses_semaphores(Mechanism mechanism) {
  return mechanism != Mechanism::stream_order && mechanism != Mechanism::pdl;
}

std::vector<Launch> launches_for(Mechanism mechanism, int stages, int workers) {
  if (mechanism == Mechanism::fused) return {{0, stages, LaunchStart::in_order, false, workers, {}}};
  std::vector<Launch> launches;
  for (int s = 0; s < stages; ++s) {
    Launch launch{s, 1, LaunchStart::in_order, false, 0, {}};
    if (s > 0 && (mechanism == Mechanism::pdl || mechanism == Mechanism::pdl_tiles))
      launch.start = LaunchStart::early;
    if (s > 0 && mechanism == Mechanism::wait_kernel) launch.start = LaunchStart::beside;
    launches.push_back(std::move(launch));
  }
  return launches;
}

int launch_of(Plan const& plan, int stage) {
  // Launches are in the order of stages, and most hold one.
  auto const after = std::upper_bound(plan.launches.begin(), plan.launches.end(), stage,
                                      [](int s, Launch const& launch) { return s < launch.first; });
  return static_cast<int>(after - plan.launches.begin()) - 1;
}

LaunchGroup group_of(Plan const& plan, int launch) {
  LaunchGroup group{launch, launch + 1};
  while (group.first > 0 && plan.launches[at(group.first)].start != LaunchStart::in_order) --group.first;
  while (at(group.end) < plan.launches.size() && plan.launches[at(group.end)].start != LaunchStart::in_order)
    ++group.end;
  return group;
}

std::vector<LaunchGroup> groups_of(Plan const& plan) {
  std::vector<LaunchGroup> groups;
  auto const launches = static_cast<int>(plan.launches.size());
  for (int launch = 0; launch < launches; launch = groups.back().end)
    groups.push_back(group_of(plan, launch));
  return groups;
}

bool is_stream_order(Plan const& plan) {
  return std::all_of(plan.launches.begin(), plan.launches.end(), [](Launch const& launch) {
    return launch.start == LaunchStart::in_order && launch.workers == 0;
  });
}

KeptBy kept_by(Plan const& plan, int consumer, int producer, int semaphore_set) {
  if (semaphore_set >= 0) return KeptBy::semaphores;
  int const waiting = launch_of(plan, consumer);
  int const before = launch_of(plan, producer);
  if (before >= waiting) return KeptBy::nothing;
  // Groups of launches begin in order: the two are of one group unless one begins between them.
  for (int launch = waiting; launch > before; --launch)
    if (plan.launches[at(launch)].start == LaunchStart::in_order) return KeptBy::completion;
  return plan.launches[at(waiting)].start == LaunchStart::early ? KeptBy::grid_wait : KeptBy::nothing;
}

KeptBy kept_by(Plan const& plan, PlannedDependence const& planned) {
  auto const& dependence = plan.pipeline.dependences[at(planned.dependence)];
  return kept_by(plan, dependence.consumer, dependence.producer, planned.semaphore_set);
}

KeptBy kept_by(Plan const& plan, ReuseEdge const& edge) {
  return kept_by(plan, edge.writer, edge.reader, edge.semaphore_set);
}

StageDuties duties_of(Plan const& plan, int stage) {
  int const index = launch_of(plan, stage);
  auto const& launch = plan.launches[at(index)];
  auto const& planned = plan.stages[at(stage)];
  StageDuties duties;
  duties.start = launch.workers > 0     ? Start::worker
                 : planned.custom_order ? Start::ticket
                                        : Start::block_index;
  if (at(index) + 1 < plan.launches.size()) {
    auto const& next = plan.launches[at(index) + 1];
    duties.triggers = next.start == LaunchStart::early;
    duties.announces_start = next.wait_kernel;
  } else {
    // Chained launches: what follows the last launch is the first one again.
    duties.triggers = plan.launches.front().start == LaunchStart::early;
  }
  duties.completes_after = launch.start == LaunchStart::early;
  bool waits = false;
  auto const add = [&](KeptBy kept) {
    duties.waits_for_grid = duties.waits_for_grid || kept == KeptBy::grid_wait;
    waits = waits || kept == KeptBy::semaphores;
  };
  for (auto const& dependence : plan.dependences)
    if (plan.pipeline.dependences[at(dependence.dependence)].consumer == stage)
      add(kept_by(plan, dependence));
  for (auto const& edge : plan.reuse_edges)
    if (edge.writer == stage) add(kept_by(plan, edge));
  duties.needs_epoch = waits || (planned.plain_store && posts(plan, stage));
  return duties;
}

std::optional<Mechanism> mechanism_of(Plan const& plan, LaunchGroup const& launches) {
  auto const first = plan.launches.begin() + launches.first;
  auto const end = plan.launches.begin() + launches.end;
  if (launches.end - launches.first == 1)
    return first->workers > 0 ? Mechanism::fused : Mechanism::stream_order;
  auto const all = [&](auto begin, LaunchStart start) {
    return std::all_of(begin, end, [&](Launch const& launch) { return launch.start == start; });
  };
  if (std::any_of(first, end, [](Launch const& launch) { return launch.workers > 0; })) return {};
  bool const semaphores = waits_for_semaphores(plan, launches);
  if (all(first + 1, LaunchStart::in_order))
    return semaphores ? std::nullopt : std::optional(Mechanism::stream_order);
  if (all(first + 1, LaunchStart::beside)) return Mechanism::wait_kernel;
  if (!all(first + 1, LaunchStart::early)) return {};
  if (!semaphores) return Mechanism::pdl;
  // A chain of both kinds of waits has no name of its own.
  for (auto const& planned : plan.dependences) {
    auto const consumer = launch_of(plan, plan.pipeline.dependences[at(planned.dependence)].consumer);
    if (consumer >= launches.first && consumer < launches.end && kept_by(plan, planned) == KeptBy::grid_wait)
      return {};
  }
  return Mechanism::pdl_tiles;
}

std::optional<Mechanism> mechanism_of(Plan const& plan) {
  return mechanism_of(plan, {0, static_cast<int>(plan.launches.size())});
}

std::string mechanism_text(Plan const& plan) {
  if (auto const mechanism = mechanism_of(plan)) return to_text(*mechanism);
  std::string text;
  for (std::size_t i = 0; i < plan.launches.size(); ++i) {
    auto const& launch = plan.launches[i];
    if (i > 0) {
      switch (launch.start) {
        case LaunchStart::in_order: text += " | "; break;
        case LaunchStart::early: text += " > "; break;
        case LaunchStart::beside: text += launch.wait_kernel ? " & " : " && "; break;
      }
    }
    std::string names;
    for (int s = launch.first; s < launch.end(); ++s)
      names += (names.empty() ? "" : " ") + plan.pipeline.stages[at(s)].name;
    text += launch.workers > 0 ? "[" + names + "]" : names;
  }
  return "mixed: " + text;
}

}  // namespace tessera
