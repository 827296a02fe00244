// SPDX-License-Identifier: Apache-2.0
#include "tessera/run/loop_stall.hpp"

#include <algorithm>
#include <cstddef>

#include "tessera/sync/data_token.cuh"

namespace tessera {
namespace {

std::optional<std::size_t> set_with(Plan const& plan, long long semaphore) {
  for (std::size_t i = 0; i < plan.semaphores.size(); ++i)
    if (semaphore >= plan.semaphores[i].first &&
        semaphore < plan.semaphores[i].first + plan.semaphores[i].count)
      return i;
  return std::nullopt;
}

/// How many periods back a stage waits for a set's posts; none: in several, or not at all.
std::optional<int> reach(LoopPlan const& loop, int stage, int set) {
  std::optional<int> reach;
  bool one = true;
  auto const found = [&](int periods) {
    one = one && (!reach || *reach == periods);
    reach = periods;
  };
  for (auto const& planned : loop.plan.dependences)
    if (planned.semaphore_set == set &&
        loop.plan.pipeline.dependences[static_cast<std::size_t>(planned.dependence)].consumer == stage)
      found(0);
  for (auto const& edge : loop.carried)
    if (edge.semaphore_set == set && edge.dependence.consumer == stage) found(edge.distance);
  for (auto const& edge : loop.plan.reuse_edges)
    if (edge.semaphore_set == set && edge.writer == stage) found(0);
  for (auto const& reuse : loop.reuses)
    if (reuse.semaphore_set == set && reuse.writer == stage) found(reuse.distance);
  return one ? reach : std::nullopt;
}

}  // namespace

std::optional<long long> stalled_iteration(LoopPlan const& loop, StallRecord const& record,
                                           long long iterations) {
  auto const stages = static_cast<int>(loop.plan.pipeline.stages.size());
  auto const body = static_cast<int>(loop.loop.body.stages.size());
  if (record.state != 2 || iterations < 1 || record.stage < 0 || record.stage >= stages) return std::nullopt;
  if (record.semaphore < k_data_token) return data_token_of(0) - record.semaphore;
  auto const index = set_with(loop.plan, record.semaphore);
  if (!index) return std::nullopt;
  auto const back = reach(loop, record.stage, static_cast<int>(*index));
  if (!back) return std::nullopt;
  auto const& set = loop.plan.semaphores[*index];
  auto const& producer = loop.plan.pipeline.stages[static_cast<std::size_t>(set.producer)];
  auto const posts = set.map.tiles_of(producer.tile_grid(), record.semaphore - set.first) * producer.splits;
  // Periods before the tile's own, in all launches.
  auto const before = static_cast<long long>(record.expected) / std::max<long long>(posts, 1) - 1 + *back;
  auto const of_launch = (iterations + loop.period - 1) / loop.period;
  return before % of_launch * loop.period + record.stage / body;
}

std::vector<std::string> awaited_data(LoopPlan const& loop, StallRecord const& record) {
  std::vector<std::string> found;
  auto const& body = loop.loop.body;
  if (record.state != 2 || record.semaphore > k_data_token || record.stage < 0) return found;
  auto const stage = record.stage % static_cast<int>(body.stages.size());
  auto const add = [&](Dependence const& dependence) {
    auto const& producer = body.stages[static_cast<std::size_t>(dependence.producer)];
    bool const carries =
        std::find(loop.tokens.begin(), loop.tokens.end(), producer.output) != loop.tokens.end();
    auto const name = producer.output + " of " + producer.name;
    if (dependence.consumer == stage && carries && std::find(found.begin(), found.end(), name) == found.end())
      found.push_back(name);
  };
  for (auto const& one : body.dependences) add(one);
  for (auto const& one : loop.loop.carried) add(one.dependence);
  return found;
}

}  // namespace tessera
