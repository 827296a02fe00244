// SPDX-License-Identifier: Apache-2.0
#include "tessera/plan/parts.hpp"

#include <algorithm>

#include "plan/reuse_keys.hpp"

namespace tessera {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

bool inside(int stage, int first, int end) { return first <= stage && stage < end; }

Launch moved(Launch launch, int by) {
  launch.first += by;
  for (auto& ticket : launch.tickets) ticket.stage += by;
  return launch;
}

}  // namespace

PipelinePart part_of(Pipeline const& whole, int first, int end) {
  PipelinePart part;
  part.pipeline.name = whole.name;
  part.pipeline.where = whole.where;
  part.pipeline.stages.assign(whole.stages.begin() + first, whole.stages.begin() + end);
  for (std::size_t d = 0; d < whole.dependences.size(); ++d) {
    auto const& known = whole.dependences[d];
    if (!inside(known.consumer, first, end) || !inside(known.producer, first, end)) continue;
    auto dependence = known;
    dependence.consumer -= first;
    dependence.producer -= first;
    part.pipeline.dependences.push_back(std::move(dependence));
    part.dependences.push_back(static_cast<int>(d));
  }
  return part;
}

Plan part_of(Plan const& whole, int first, int end) {
  Plan plan;
  auto part = part_of(whole.pipeline, first, end);
  plan.pipeline = std::move(part.pipeline);
  plan.machine = whole.machine;
  plan.machine_values = whole.machine_values;
  for (auto const& launch : whole.launches)
    if (inside(launch.first, first, end)) plan.launches.push_back(moved(launch, -first));
  if (!plan.launches.empty()) {
    plan.launches.front().start = LaunchStart::in_order;
    plan.launches.front().wait_kernel = false;
  }
  plan.stages.assign(whole.stages.begin() + first, whole.stages.begin() + end);
  std::vector<int> set_at(whole.semaphores.size(), -1);
  for (std::size_t i = 0; i < whole.semaphores.size(); ++i) {
    if (!inside(whole.semaphores[i].producer, first, end)) continue;
    set_at[i] = static_cast<int>(plan.semaphores.size());
    plan.semaphores.push_back(whole.semaphores[i]);
    plan.semaphores.back().producer -= first;
  }
  auto const set = [&](int old) { return old < 0 ? -1 : set_at[at(old)]; };
  for (std::size_t i = 0; i < part.dependences.size(); ++i)
    plan.dependences.push_back(
        {static_cast<int>(i), set(whole.dependences[at(part.dependences[i])].semaphore_set)});
  for (auto edge : whole.reuse_edges) {
    if (!inside(edge.writer, first, end) || !inside(edge.reader, first, end)) continue;
    edge.writer -= first;
    edge.reader -= first;
    edge.semaphore_set = set(edge.semaphore_set);
    plan.reuse_edges.push_back(std::move(edge));
  }
  return plan;
}

Plan join(Pipeline const& whole, std::vector<BufferReuse> const& reuses,
          std::vector<PlannedPart> const& parts) {
  Plan plan;
  plan.pipeline = whole;
  for (std::size_t d = 0; d < whole.dependences.size(); ++d)
    plan.dependences.push_back({static_cast<int>(d), -1});
  std::int64_t semaphores = 0;
  int first = 0;
  for (auto const& [part, start] : parts) {
    plan.machine = part.machine;
    int const end = first + static_cast<int>(part.stages.size());
    for (std::size_t i = 0; i < part.launches.size(); ++i) {
      plan.launches.push_back(moved(part.launches[i], first));
      if (i == 0) plan.launches.back().start = start;
    }
    plan.stages.insert(plan.stages.end(), part.stages.begin(), part.stages.end());
    int const sets = static_cast<int>(plan.semaphores.size());
    for (auto set : part.semaphores) {
      set.producer += first;
      set.first = semaphores;
      semaphores += set.count;
      plan.semaphores.push_back(std::move(set));
    }
    auto const set = [&](int old) { return old < 0 ? -1 : old + sets; };
    auto const places = part_of(whole, first, end).dependences;
    for (std::size_t i = 0; i < places.size(); ++i)
      plan.dependences[at(places[i])].semaphore_set = set(part.dependences[i].semaphore_set);
    for (auto edge : part.reuse_edges) {
      edge.writer += first;
      edge.reader += first;
      edge.semaphore_set = set(edge.semaphore_set);
      plan.reuse_edges.push_back(std::move(edge));
    }
    first = end;
  }
  ReuseKeys known;
  for (auto const& edge : plan.reuse_edges) known.insert({edge.writer, edge.reader, edge.buffer});
  // Between parts, only what an early launch could overtake needs an edge.
  for (auto const& reuse : reuses) {
    ReuseEdge edge{reuse.writer, reuse.reader, reuse.buffer, -1};
    if (reuse.covered || kept_by(plan, edge) != KeptBy::grid_wait) continue;
    if (known.insert({reuse.writer, reuse.reader, reuse.buffer}).second)
      plan.reuse_edges.push_back(std::move(edge));
  }
  return plan;
}

}  // namespace tessera
